#include "src/run/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/limits.hpp"
#include "mpi/agreement.hpp"
#include "src/run/continuation.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path folder_of(const Config& config) { return fs::path(config.run.folder) / "checkpoints"; }

StateRows rows_of(const Config& config) {
  return config.training.global_batch_norm ? StateRows::one : StateRows::one_per_rank;
}

// The model that goes through the stages: the finest is fused from what it was before.
bool leads(const TrainStep& step) { return step.role != Role::dense; }

// Bottom and top; one number where the file is older, for both.
MomentAges ages_of(const Json& steps) {
  if (!steps.is_array()) return {steps, steps};
  return {steps.at(0), steps.at(1)};
}

// A file that cannot be removed does no harm: it is never looked at again.
void remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

Checkpoints::Checkpoints(const Config& config, const Plan& plan, Index samples, int ranks)
    : config_(config), steps_(plan.training()), samples_(samples), ranks_(ranks) {}

void Checkpoints::find(Comm& world) {
  std::vector<CheckpointTexts> files(steps_.size());
  together(world, [&] {
    for (std::size_t i = 0; world.root() && i < steps_.size(); ++i)
      if (fs::exists(path(steps_[i].number))) files[i] = read_checkpoint_texts(path(steps_[i].number));
  });
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    world.broadcast(files[i].progress, 0);
    world.broadcast(files[i].config, 0);
    if (!files[i].progress.empty()) adopt(steps_[i], files[i]);
  }
  std::erase_if(found_, [&](const auto& saved) { return saved.second.step.stage < first_stage_; });
}

// All ranks see the same texts, so all of them fail where one does.
void Checkpoints::adopt(const TrainStep& step, const CheckpointTexts& texts) try {
  const std::string origin = path(step.number);
  require_shallow_json(texts.progress, origin);
  const Json json = Json::parse(texts.progress);
  require_continuable({parse_config(texts.config, origin, {}, Writer::run), json.at("samples"), json.at("ranks")},
                      {config_, samples_, ranks_});
  TrainState state = train_state_from_json(json.at("state").dump(), step, origin);
  if (state.finished()) ended_.insert_or_assign(step.number, state.history);
  for (const Json& earlier : json.at("history"))
    ended_.insert_or_assign(earlier.at("number"), step_history_from_json(earlier.at("step").dump(), origin));
  if (leads(step)) first_stage_ = std::max(first_stage_, step.stage);
  found_.emplace(step.number, Saved{step, std::move(state), ages_of(json.at("optimizer_steps"))});
} catch (const Json::exception& error) {
  throw DataError(fmt::format("{}: not a checkpoint of this mrmf ({}); begin anew with --overwrite", path(step.number),
                              error.what()));
}

std::string Checkpoints::path(int number) const {
  return (folder_of(config_) / fmt::format("step-{}.h5", number)).string();
}

std::string Checkpoints::position() const {
  const Saved& last = found_.rbegin()->second;
  return position_text(last.step, last.state);
}

std::vector<StepHistory> Checkpoints::history() const {
  std::map<int, StepHistory> all = ended_;
  for (const auto& [number, saved] : found_) all.insert_or_assign(number, saved.state.history);
  std::vector<StepHistory> list;
  for (auto& [number, step] : all) list.push_back(std::move(step));
  return list;
}

void Checkpoints::add(const TrainStep& step, const StepHistory& history) {
  ended_.insert_or_assign(step.number, history);
}

void Checkpoints::clear(const Comm& world) {
  if (world.root()) remove_checkpoints(config_.run.folder);
}

std::optional<TrainState> Checkpoints::load(Backend& backend, Learner& learner, const TrainStep& step,
                                            Comm& team) const {
  const auto saved = found_.find(step.number);
  if (saved == found_.end()) return {};
  load_checkpoint(backend, path(step.number), learner, rows_of(config_), team);
  learner.optimizer.configure(step.optimizer);
  learner.optimizer.set_ages(saved->second.ages);
  return saved->second.state;
}

void Checkpoints::save(Backend& backend, Learner& learner, const TrainStep& step, const TrainState& state, Comm& team) {
  save_checkpoint(backend, path(step.number), learner, texts(learner, step, state), rows_of(config_), team);
  if (state.finished()) ended_.insert_or_assign(step.number, state.history);
  if (!team.root() || !leads(step)) return;
  for (const TrainStep& earlier : steps_)
    if (earlier.stage < step.stage) remove(path(earlier.number));
}

CheckpointTexts Checkpoints::texts(const Learner& learner, const TrainStep& step, const TrainState& state) const {
  Json history = Json::array();
  for (const auto& [number, ended] : ended_)
    if (ended.record.stage < step.stage) history.push_back({{"number", number}, {"step", Json::parse(to_json(ended))}});
  const Versions versions = these_versions("");
  const Json json{{"program", versions.mrmf + " (" + versions.git + ")"},
                  {"samples", samples_},
                  {"ranks", ranks_},
                  {"optimizer_steps", {learner.optimizer.ages().bottom, learner.optimizer.ages().top}},
                  {"state", Json::parse(to_json(state))},
                  {"history", history}};
  return {json.dump(), to_toml(config_)};
}

}  // namespace mrmf
