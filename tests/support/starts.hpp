// A run as `mrmf train` does it, in one start or in many, each of which a signal ends after one optimizer step.
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/method/pipeline.hpp"
#include "tests/support/data_files.hpp"

namespace mrmf::test {

/// What a run leaves, as far as it must not depend on how often it was stopped.
struct FinalState {
  std::vector<float> params, state;
  std::vector<double> losses;        ///< training and validation, and the rate, of every epoch
  std::vector<std::string> reasons;  ///< why the stages ended
  bool operator==(const FinalState&) const = default;
};

class Starts {
 public:
  Starts(const Config& config, Backend& backend, Comm& team) : config_(config), backend_(&backend), team_(&team) {
    for (LayerSpec& layer : config_.model.layers)  // as a configuration's text must have it
      if (layer.stride == Extent{0, 0, 0}) layer.stride = {1, 1, 1};
  }

  int count = 0;                ///< starts so far
  double seconds = 0;           ///< as the end of the run says
  int signalled_rank = 0;       ///< who gets the signal; -1: every rank
  bool shard_replicas = false;  ///< as RunContext has it

  FinalState straight() { return *start(false); }
  FinalState interrupted() {
    for (;;)
      if (auto left = start(true)) return *left;
  }
  /// One start; none where it was stopped.
  std::optional<FinalState> start(bool stop) {
    ++count;
    const Plan plan = make_plan(config_);
    Data data(config_, *team_);
    if (team_->root()) std::filesystem::create_directories(config_.run.folder + "/checkpoints");
    team_->barrier();
    Checkpoints checkpoints(config_, plan, data.shape().samples, team_->size());
    checkpoints.find(*team_);
    RunLog log;
    if (team_->root()) log = RunLog({config_.run.folder, nullptr, false}, to_toml(config_), "", checkpoints.history());
    const StopSignals signals;
    if (stop && (signalled_rank < 0 || team_->rank() == signalled_rank)) std::raise(SIGUSR1);
    SavePolicy times(config_.run, signals);
    Saving saving{checkpoints, times};
    try {
      return final_state(run_pipeline(plan, config_, {*backend_, *team_, data, log, &saving, shard_replicas}));
    } catch (const Stopped&) {
      return {};
    }
  }

 private:
  FinalState final_state(Outcome outcome) {
    FinalState all;
    seconds = outcome.seconds;
    Model& model = outcome.model_state.model;
    all.params.assign(model.params().begin(), model.params().end());
    all.state.assign(model.state().begin(), model.state().end());
    for (const PhaseRecord& stage : outcome.phases) all.reasons.push_back(stage.reason);
    team_->barrier();  // the root has written its records
    std::ifstream lines(config_.run.folder + "/epochs.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const EpochRecord epoch = epoch_from_json(line, "epochs.jsonl");
      all.losses.insert(all.losses.end(), {epoch.train_loss, epoch.validation_loss, epoch.learning_rate});
    }
    return all;
  }

  Config config_;
  Backend* backend_;
  Comm* team_;
};

}  // namespace mrmf::test
