// A plan in words, as `mrmf plan` prints it, and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "src/plan/plan.hpp"
#include "src/run/records.hpp"

namespace mrmf {
namespace {

nlohmann::json to_json(const TrainStep& step) {
  nlohmann::json json = {{"step", "train"},
                         {"stage", step.stage},
                         {"role", to_string(step.role)},
                         {"resolution", factors(step.resolution, step.axes)},
                         {"batch", step.batch},
                         {"optimizer", step.optimizer.name},
                         {"learning_rate", step.optimizer.learning_rate},
                         {"rule", step.optimizer.rule},
                         {"curve", {step.curve.begin, step.curve.end}},
                         {"epochs", step.stop.epochs},
                         {"seed", step.seed}};
  if (step.stop.threshold) json["threshold"] = *step.stop.threshold, json["patience"] = step.stop.patience;
  if (step.stop.target) json["target"] = *step.stop.target;
  return json;
}

const char* top_text(const FuseStep& fuse, bool dense_trained) {
  if (fuse.matching) return "top layers that fit from coarse, the others fresh";
  switch (fuse.top) {
    case TopRule::fresh: return "top fresh";
    case TopRule::interpolated: return "top interpolated from coarse";
    case TopRule::dense: return dense_trained ? "top from dense" : "top fresh";
  }
  return "";
}

const char* top_name(const FuseStep& fuse) {
  if (fuse.matching) return "matching";
  return fuse.top == TopRule::dense ? "dense" : fuse.top == TopRule::fresh ? "fresh" : "interpolated";
}

std::string stop_text(const StopSettings& stop) {
  std::string text;
  if (stop.target) text += fmt::format("validation loss <= {}, or ", *stop.target);
  if (stop.threshold) text += fmt::format("loss reduction < {} for {} epochs, or ", *stop.threshold, stop.patience);
  return text + fmt::format("{} epoch{}", stop.epochs, stop.epochs == 1 ? "" : "s");
}

std::string train_text(const TrainStep& step) {
  return fmt::format("train  {:<8}  resolution {:<8}  batch {:<5} {} {} {:<9} until {}", to_string(step.role),
                     resolution_text(step.resolution, step.axes), step.batch, step.optimizer.name,
                     step.optimizer.learning_rate, step.optimizer.rule, stop_text(step.stop));
}

std::string teams_text(const Stage& stage) {
  if (!stage.at_once) return "";
  const std::string shares = stage.split.empty()
                                 ? "in shares to be measured"
                                 : fmt::format("{} : {} (dense : coarse)", stage.split[0], stage.split[1]);
  return ", at once with coarse, ranks " + shares + (stage.join ? ", who is ready first joins" : "");
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string text =
      fmt::format("plan: {}, {} fusion{}\n", plan.method, plan.stages.size(), plan.stages.size() == 1 ? "" : "s");
  int number = 0;
  const auto add = [&](int stage, const std::string& line) {
    text += fmt::format("{:>3}. stage {}  {}\n", ++number, stage, line);
  };
  for (const Stage& stage : plan.stages) {
    if (stage.coarse_trained) add(stage.coarse.stage, train_text(stage.coarse));
    if (stage.dense) add(stage.dense->stage, train_text(*stage.dense) + teams_text(stage));
    add(stage.fuse.stage,
        fmt::format("fuse   {} -> {}: bottom {}, {}, optimizer moments {}",
                    resolution_text(stage.fuse.from, stage.fuse.axes), resolution_text(stage.fuse.to, stage.fuse.axes),
                    stage.coarse_trained ? "from coarse" : "fresh", top_text(stage.fuse, stage.dense.has_value()),
                    stage.fuse.moments == Moments::reset ? "reset" : "carried over"));
  }
  add(plan.last.stage, train_text(plan.last));
  return text;
}

std::string to_json(const Plan& plan) {
  nlohmann::json steps = nlohmann::json::array();
  for (const Stage& stage : plan.stages) {
    if (stage.coarse_trained) steps.push_back(to_json(stage.coarse));
    if (stage.dense) steps.push_back(to_json(*stage.dense));
    if (stage.at_once) {
      steps.back()["at_once"] = true;
      if (!stage.split.empty()) steps.back()["split"] = stage.split;
      steps.back()["join"] = stage.join;
    }
    steps.push_back({{"step", "fuse"},
                     {"stage", stage.fuse.stage},
                     {"from", factors(stage.fuse.from, stage.fuse.axes)},
                     {"to", factors(stage.fuse.to, stage.fuse.axes)},
                     {"bottom", stage.coarse_trained ? "coarse" : "fresh"},
                     {"top", top_name(stage.fuse)},
                     {"moments", stage.fuse.moments == Moments::reset ? "reset" : "carry"}});
  }
  steps.push_back(to_json(plan.last));
  return nlohmann::json{{"method", plan.method}, {"steps", steps}}.dump(2) + "\n";
}

}  // namespace mrmf
