#include "src/ensemble/ensemble.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <mutex>
#include <thread>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/output.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/config/toml.hpp"
#include "src/run/signals.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kCandidateStream = 0x63616E64;

std::string record_of(const EnsembleSpec& spec) { return spec.folder + "/rounds/rounds.jsonl"; }

std::string program() { return fs::read_symlink("/proc/self/exe").string(); }

std::string array_text(const std::string& file) { return "data.files=[" + mrmf::quoted(file) + "]"; }

// Trains model `number` of a round, unless an earlier start has. Returns why it failed; "" if it did not.
std::string train_model(const EnsembleSpec& spec, const std::string& folder, int number, const Workplace& workplace) {
  const std::string run = fmt::format("{}/model-{}", folder, number);
  std::error_code none;
  if (fs::exists(run + "/result.json", none)) return "";
  ChildCall call;
  call.words = {program(), "train", spec.rounds.config};
  std::vector<std::string> settings = spec.rounds.settings;
  settings.push_back(array_text(spec.folder + "/data.h5"));
  settings.push_back(fmt::format("training.seed={}", number));
  settings.push_back("run.folder=" + mrmf::quoted(run));
  for (const std::string& setting : settings) call.words.insert(call.words.end(), {"--set", setting});
  call.log = run + ".txt";
  call.environment = {{"OMP_NUM_THREADS", std::to_string(workplace.threads)}};
  const ChildEnd end = run_child(call, workplace.stop);
  if (end.stopped || end.code == Stopped::exit_code) return kToldToStop;
  return end.code == 0 ? "" : fmt::format("{} (exit code {})", last_line(call.log), end.code);
}

void train_models(const EnsembleSpec& spec, const std::string& folder, const Workplace& workplace, int side_by_side) {
  std::atomic<int> next{1};
  std::mutex mutex;
  std::string failed;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < side_by_side; ++t)
      threads.emplace_back([&] {
        for (int number = next++; number <= spec.rounds.models; number = next++) {
          std::string error;
          try {
            error = train_model(spec, folder, number, workplace);
          } catch (const std::exception& thrown) {
            error = thrown.what();
          }
          const std::lock_guard lock(mutex);
          if (failed.empty()) failed = error;
          if (!failed.empty()) return;
        }
      });
  }
  if (failed == kToldToStop) throw Stopped{SIGTERM};
  if (!failed.empty()) throw FaultError(fmt::format("{}: a model of the round was not trained: {}", folder, failed));
}

void write_candidates(const EnsembleSpec& spec, const std::vector<Point>& candidates, const std::string& file) {
  const auto rows = static_cast<Index>(candidates.size()), keys = static_cast<Index>(spec.design.axes.size());
  std::vector<float> labels;
  std::vector<double> parameters;
  for (const Point& candidate : candidates)
    for (std::size_t k = 0; k < candidate.size(); ++k) {
      const double value = coordinate(spec.design.axes[k], candidate[k]);
      labels.push_back(static_cast<float>(2 * share_of(spec.design.axes[k], value) - 1));
      parameters.push_back(value);
    }
  Hdf5Output out(file, Replace::file, Comm::self());
  out.create_dataset("labels", {rows, keys});
  out.create_dataset("parameters", {rows, keys}, ElementType::float64);
  out.write_rows("labels", 0, ConstSpan(labels));
  out.write_rows("parameters", 0, std::as_bytes(std::span(parameters)));
  out.commit();
}

// How far the models' predictions for each candidate are from each other, in units of how far each output spreads.
std::vector<double> disagreement_of(const EnsembleSpec& spec, const std::string& folder, const Workplace& workplace) {
  const std::string predictions = folder + "/predictions.h5";
  ChildCall call;
  call.words = {program(), "predict"};
  for (int number = 1; number <= spec.rounds.models; ++number)
    call.words.push_back(fmt::format("{}/model-{}", folder, number));
  call.words.insert(call.words.end(), {"--files", folder + "/candidates.h5", "-o", predictions, "--overwrite"});
  call.log = folder + "/predict.txt";
  const ChildEnd end = run_child(call, workplace.stop);
  if (end.stopped) throw Stopped{SIGTERM};
  if (end.code != 0)
    throw FaultError(fmt::format("{}: the candidates were not predicted: {}", folder, last_line(call.log)));
  const DatasetNumbers mean = read_stored_numbers(predictions, "prediction"),
                       deviation = read_stored_numbers(predictions, "deviation");
  const auto rows = static_cast<std::size_t>(deviation.shape.front()),
             width = deviation.values.size() / std::max<std::size_t>(1, rows);
  std::vector<double> score(rows);
  for (std::size_t o = 0; o < width; ++o) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < rows; ++i)
      sum += mean.values[i * width + o], squares += mean.values[i * width + o] * mean.values[i * width + o];
    const auto n = static_cast<double>(rows);
    const double spread = std::sqrt(std::max(squares / n - sum / n * sum / n, 0.0));
    for (std::size_t i = 0; i < rows && spread > 0; ++i)
      score[i] += deviation.values[i * width + o] / spread / static_cast<double>(width);
  }
  return score;
}

double distance(const Point& a, const Point& b) {
  double squares = 0;
  for (std::size_t k = 0; k < a.size(); ++k) squares += (a[k] - b[k]) * (a[k] - b[k]);
  return std::sqrt(squares);
}

}  // namespace

RoundPoints read_rounds(const EnsembleSpec& spec) {
  RoundPoints found;
  std::error_code none;
  const std::string path = record_of(spec);
  if (!fs::exists(path, none)) return found;
  const std::string text = read_file(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const Json json = end == std::string::npos ? Json() : Json::parse(text.substr(at, end - at), nullptr, false);
    if (end == std::string::npos) break;  // a killed process left it torn: the round is repeated
    at = end + 1;
    if (!json.is_object() || !json.contains("points"))
      throw DataError(path + ": is damaged; remove the ensemble's folder, or this file with the rounds");
    for (const auto& point : json["points"]) found.points.push_back(point.get<Point>());
    ++found.rounds;
  }
  return found;
}

std::vector<std::size_t> choose_candidates(const std::vector<Point>& candidates,
                                           const std::vector<double>& disagreement, Index wanted) {
  std::vector<std::size_t> chosen;
  if (candidates.empty()) return chosen;
  // What lies within half the distance of evenly spread points says much the same.
  const double near =
      0.5 * std::pow(1.0 / static_cast<double>(wanted), 1.0 / static_cast<double>(candidates.front().size()));
  std::vector<double> weight = disagreement;
  while (std::ssize(chosen) < std::min(wanted, std::ssize(candidates))) {
    const auto best = static_cast<std::size_t>(std::ranges::max_element(weight) - weight.begin());
    chosen.push_back(best);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      weight[i] *= std::min(1.0, distance(candidates[i], candidates[best]) / near);
    weight[best] = -std::numeric_limits<double>::infinity();
  }
  return chosen;
}

std::string add_round(const EnsembleSpec& spec, const std::vector<Point>& points, int round,
                      const Workplace& workplace) {
  const std::string folder = fmt::format("{}/rounds/{}", spec.folder, round);
  make_folders(folder);
  const int cores = workplace.threads, side_by_side = std::min(spec.rounds.models, cores);
  const Workplace each{workplace.folder, workplace.stop, std::max(1, cores / side_by_side)};
  train_models(spec, folder, each, side_by_side);
  const std::vector<Point> candidates =
      sobol_points(spec.design.axes.size(), 0, spec.rounds.candidates,
                   mix(spec.seed, static_cast<std::uint64_t>(round), kCandidateStream));
  write_candidates(spec, candidates, folder + "/candidates.h5");
  const std::vector<double> disagreement = disagreement_of(spec, folder, each);
  Json added = Json::array();
  double chosen_mean = 0, all_mean = 0;
  for (const double one : disagreement) all_mean += one / static_cast<double>(disagreement.size());
  for (const std::size_t i : choose_candidates(candidates, disagreement, spec.rounds.members)) {
    Point point;
    for (std::size_t k = 0; k < spec.design.axes.size(); ++k)
      point.push_back(coordinate(spec.design.axes[k], candidates[i][k]));
    added.push_back(point);
    chosen_mean += disagreement[i] / static_cast<double>(spec.rounds.members);
  }
  const Json line{{"round", round},
                  {"members", points.size()},
                  {"disagreement", all_mean},
                  {"disagreement_chosen", chosen_mean},
                  {"points", added}};
  const std::string path = record_of(spec);
  std::error_code none;
  std::string kept = fs::exists(path, none) ? read_file(path) : "";
  kept.erase(kept.rfind('\n') == std::string::npos ? 0 : kept.rfind('\n') + 1);
  write_file(path, kept + line.dump() + "\n", Replace::file);
  return fmt::format(
      "round {} of {}: {} models of {} members disagree by {:.3g} of an output's spread, {:.3g} where {} members are "
      "added",
      round, spec.rounds.count, spec.rounds.models, points.size(), all_mean, chosen_mean, added.size());
}

}  // namespace mrmf
