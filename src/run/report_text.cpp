// The lines and the table that a run prints.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/run/report.hpp"

namespace mrmf {
namespace {

constexpr std::array<const char*, 3> kTopWords{"dense", "fresh", "interpolated"};  // in the order of TopRule

std::string data_text(const DataConfig& data) {
  std::string text;
  for (const std::string& file : data.train.files) text += (text.empty() ? "" : ", ") + file;
  text += ": " + data.train.samples + ", " + data.train.labels;
  if (data.validation.files != data.train.files) {
    text += "; ";
    for (const std::string& file : data.validation.files) text += file + ", ";
    text.resize(text.size() - 2);
    text += ":";
  } else {
    text += ";";
  }
  return text + " " + data.validation.samples + ", " + data.validation.labels;
}

std::string target_line(const RunResult& result) {
  if (!result.target) return "no target validation loss was set";
  return fmt::format("target validation loss {:g}: {}", *result.target,
                     result.target_reached ? "reached" : "NOT reached");
}

}  // namespace

RunResult make_result(const Config& config, const std::vector<StageRecord>& stages, double total_seconds) {
  RunResult result;
  result.method = config.method.name;
  result.top = kTopWords.at(static_cast<std::size_t>(config.method.top));
  result.resolutions = config.method.resolutions;
  result.axes = std::max(1, config.method.axes);
  result.seed = config.training.seed;
  result.model = config.model.preset.empty() ? "custom" : config.model.preset;
  result.data = data_text(config.data);
  result.stages = stages;
  result.total_seconds = total_seconds;
  result.target = config.method.target;
  if (!stages.empty()) {
    result.validation_loss = stages.back().last.validation_loss;
    result.ranks = stages.back().last.ranks;
  }
  result.target_reached = result.target && result.validation_loss <= *result.target;
  return result;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string epoch_line(const EpochRecord& r) {
  const double speed = r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0;
  return fmt::format(
      "stage {} {:<8} {:<8} epoch {:>3}  train {:<8.5f} validation {:<8.5f}  {:.2f} s  {:.0f} samples/s  rate {:.2e}",
      r.stage, r.role, resolution_text(r.resolution, r.axes), r.epoch, r.train_loss, r.validation_loss, r.seconds,
      speed, r.learning_rate);
}

std::string progress_line(const Progress& now, double samples_per_second, double seconds_left) {
  const TrainStep& step = *now.training;
  return fmt::format("stage {} {} {} epoch {}/{}  step {}/{}  loss {:.5f}  {:.0f} samples/s  {} left in the epoch",
                     step.stage, to_string(step.role), resolution_text(step.resolution, step.axes), now.epoch + 1,
                     step.stop.epochs, now.step, now.steps, now.loss, samples_per_second, duration_text(seconds_left));
}

std::string result_table(const RunResult& result) {
  std::string text =
      fmt::format("{:<6} {:<9} {:<10} {:>6} {:>10} {:>10} {:>10} {:>10} {:>11}  {}\n", "stage", "role", "resolution",
                  "epochs", "seconds", "I/O", "compute", "comm.", "validation", "ended by");
  int epochs = 0;
  double seconds = 0;
  for (const StageRecord& s : result.stages) {
    text += fmt::format("{:<6} {:<9} {:<10} {:>6} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>11.5f}  {}\n", s.stage,
                        s.role, resolution_text(s.resolution, s.axes), s.epochs, s.seconds, s.split.io.mean,
                        s.split.compute.mean, s.split.communication.mean, s.last.validation_loss, s.reason);
    epochs += s.epochs;
    seconds += s.seconds;
  }
  const auto at_once = [&](const StageRecord& s) { return s.last.ranks < result.ranks || s.joined > 0; };
  const bool teams = std::any_of(result.stages.begin(), result.stages.end(), at_once);
  text += teams ? fmt::format("{:<27} {:>6} {:>10.2f}", "in all, teams at once", epochs, result.total_seconds)
                : fmt::format("{:<27} {:>6} {:>10.2f}", "sum", epochs, seconds);
  for (const StageRecord& s : result.stages)
    if (s.last.ranks < result.ranks)
      text += fmt::format("\nstage {}: the {} team, {} of {} ranks, waited {:.2f} s for the other", s.stage, s.role,
                          s.last.ranks, result.ranks, s.waited);
  for (const StageRecord& s : result.stages)
    if (s.joined > 0)
      text += fmt::format("\nstage {}: the other team joined the {} team after {} epoch{}", s.stage, s.role, s.joined,
                          s.joined == 1 ? "" : "s");
  text += fmt::format("\n{}, seed {}: final validation loss {:.5f} after {:.2f} s; {}", result.method, result.seed,
                      result.validation_loss, result.total_seconds, target_line(result));
  return text;
}

}  // namespace mrmf
