// The updates of a network of several parts (layers/parts.hpp): each part by an optimizer of its own, in its turns.
// What a step does, and how many updates a part has had, are functions of the step's position in the phase. So a
// checkpoint needs nothing more of them.
#pragma once

#include <optional>
#include <vector>

#include "src/config/config.hpp"
#include "src/training/model_state.hpp"

namespace mrmf {

class PartUpdates {
 public:
  /// Makes the updates of the model's parts as the phase trains them.
  PartUpdates(const TrainingConfig& training, const OptimizerSettings& phase, const Model& model);
  PartUpdates(const PartUpdates&) = delete;
  PartUpdates& operator=(const PartUpdates&) = delete;

  /// Where a step stands: in an epoch that has so many.
  struct StepPosition {
    int epoch = 0;
    Index step = 0, steps = 1;
  };
  std::size_t turn(const StepPosition& position) const {
    return order_.at(position.epoch, position.step, position.steps);
  }

  /// Clears the gradients of what the step's turn does not update, so that they count in no norm.
  void clear_others(Backend& backend, const StepContext& step, Span grads) const;
  /// The learning rate that the phase's rule gives there, and how many times its own the weight decay is.
  struct Factors {
    double learning_rate = 0, weight_decay = 1;
  };
  /// Updates the parts of the step's turn. Their own rates and weight decays are multiplied as the phase's.
  void update(ModelState& model_state, const StepContext& step, const StepPosition& position,
              const Factors& factors) const;

 private:
  struct Own {
    std::string name;  // empty: all layers, where there are no parts
    OptimizerSettings settings;
    std::vector<ArenaSpan> spans;
  };
  bool trains(std::size_t turn, const Own& part) const;

  PartSettings settings_;
  TurnOrder order_;
  OptimizerSettings phase_;
  std::vector<Own> parts_;
};

/// Adds the rows and the losses of a step, which the model has computed and the ranks have added, to those of the
/// epoch.
void add_terms(const PartSettings& settings, const StepContext& step, ConstSpan term_losses, Index rows,
               TrainState& state);

}  // namespace mrmf
