// The checkpoints of a run: one file per training step of the plan, checkpoints/step-<n>.h5, written by the team that
// trains that step. From them, the same command goes on where the run was saved.
//
// A stage's files are kept until the next stage's coarse model (or the last one), which was fused from its models, is
// on disk. So a run goes on at the last stage whose coarse model has a file; a fusion that has none is done again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/run/checkpoint_file.hpp"
#include "src/run/train_state.hpp"

namespace mrmf {

class Checkpoints {
 public:
  /// `samples`: of the training data. Finds nothing as yet.
  Checkpoints(const Config& config, const Plan& plan, Index samples, int ranks);

  /// Looks what an earlier start left in run.folder. Collective over the world. DataError: a file that is torn or
  /// damaged. ConfigError: the run was begun with another configuration, on other data, or on a number of ranks that
  /// changes its mini-batches.
  void find(Comm& world);
  bool found() const { return !found_.empty(); }
  /// Where the run goes on, in words. Requires found().
  std::string position() const;
  /// The records of what is done, in the plan's order.
  std::vector<StepHistory> history() const;
  /// Stages of the plan that the run has left behind: their models are part of what was saved later.
  std::size_t stages_behind() const { return static_cast<std::size_t>(first_stage_) - 1; }

  /// A step that other ranks have trained to its end: its history is part of what is saved from now on.
  void add(const TrainStep& step, const StepHistory& history);

  /// Removes all files, found or not: those of a run that begins anew, or is done.
  void clear(const Comm& world);

  /// What was saved of this step, with the learner as it was then; none: the step was not begun. Collective.
  std::optional<TrainState> load(Backend& backend, Learner& learner, const TrainStep& step, Comm& team) const;
  /// Collective. DataError: the file cannot be written; the one before it is still there.
  void save(Backend& backend, Learner& learner, const TrainStep& step, const TrainState& state, Comm& team);

 private:
  struct Saved {
    TrainStep step;
    TrainState state;
    MomentAges ages;
  };
  std::string path(int number) const;
  void adopt(const TrainStep& step, const CheckpointTexts& texts);
  CheckpointTexts texts(const Learner& learner, const TrainStep& step, const TrainState& state) const;

  Config config_;
  std::vector<TrainStep> steps_;  // of the plan
  Index samples_;
  int ranks_;
  int first_stage_ = 1;
  std::map<int, Saved> found_;        // by the step's number
  std::map<int, StepHistory> ended_;  // of steps that have ended
};

}  // namespace mrmf
