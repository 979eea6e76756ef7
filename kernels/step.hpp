// What a call knows of the step that it is part of: every number that changes from step to step, and the sums and
// messages of the ranks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/collectives.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// One update of a span of parameters: the learning rate of the step, and the optimizer's other numbers as in PyTorch.
struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
};
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float weight_decay = 0;                  ///< Adam: added to the gradient
  float decoupled_decay = 0;               ///< AdamW: w -= learning_rate * decoupled_decay * w, before the step
  float correction1 = 1, correction2 = 1;  ///< 1 - beta^t, t: updates that these moments have seen
};
struct LionStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0;
  float decoupled_decay = 0;  ///< as AdamW's
  float gain = 1;             ///< gradients are multiplied by this: a rank's share of a sum becomes a mean of its own
};

/// Where a call stands in the run, and every number that changes from step to step. A device backend that replays a
/// captured step takes them from here (Backend::begin).
struct StepContext {
  bool training = true;
  std::uint64_t seed = 0;               ///< the phase's: the run's seed, mixed with the phase's key
  std::uint64_t updates_done = 0;       ///< by the optimizer on this model, so far
  std::span<const std::int64_t> ids{};  ///< global index of each row's sample in its data set
  AllReduce* team_sum = nullptr;        ///< over the ranks of the team; null: batch-norm statistics are this rank's own
  AllReduce* same_block_sum =
      nullptr;  ///< over one rank of each sample group, where every rank of a group has all of its samples
  Messages* halo_messages = nullptr;  ///< null: every rank has whole samples
  AllReduce* sample_sum = nullptr;    ///< sums over the ranks of a grid; null: this rank has all of each sample
  Index batch_index = 0;              ///< of the batch in its epoch: where append_history() puts the loss
  float loss_weight = 1;              ///< weight of each row's loss in the gradient
  float share = 1;                    ///< share of each row's loss that this rank counts, with its gradient (grids)
  float dropout_factor = 1;           ///< multiplies every dropout layer's own rate (1 outside of tournaments)
  ConstTensor labels{};               ///< of the batch, for layers that read them (layers/parts.hpp); empty: none
  std::size_t turn = 0;               ///< whose turn it is to train (layers/parts.hpp)
  SgdStep sgd{};                      ///< the update that ends the step: one of this, lion and adam
  LionStep lion{};
  std::array<AdamStep, 2> adam{};  ///< for two groups of parameters, whose moments may differ in age
};

}  // namespace mrmf
