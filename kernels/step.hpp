// Where a call stands in a run, and what it needs of the ranks that train one model together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "kernels/tensor.hpp"

namespace mrmf {

/// What sums over the ranks took, in seconds.
struct SumTime {
  double waited = 0;  ///< calculation stood still for them
  double hidden = 0;  ///< they went on beside calculation (0 where that cannot be told)
};

/// Sums over the ranks that train one model together, of values in the backend's memory; in place, the same result on
/// every rank.
class AllReduce {
 public:
  virtual ~AllReduce() = default;
  virtual void sum(std::span<double> values) = 0;
  /// Begins the sum of these gradients, which may go on beside the calls that follow...
  virtual void start(Span part) = 0;
  /// ...until here: what comes after sees the sums of all that was started.
  virtual void finish() = 0;
  /// What the sums took since the last call of this.
  virtual SumTime take_time() = 0;
};

/// The ranks that train one model together, as a backend needs them to make its own communicator.
struct Peers {
  int rank = 0, size = 1;
  std::function<void(std::span<std::byte>)> broadcast;  ///< from rank 0, collective
};

/// One update of a span of parameters (src/training/optimizer.hpp says what the numbers mean).
struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
};
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float weight_decay = 0;                  ///< Adam: added to the gradient
  float decoupled_decay = 0;               ///< AdamW: w -= learning_rate * decoupled_decay * w, before the step
  float correction1 = 1, correction2 = 1;  ///< 1 - beta^t, t: updates that these moments have seen
};

/// Where a call stands in the run, and every number that changes from step to step: a device backend that replays a
/// recorded step takes them from here (Backend::begin).
struct Step {
  bool training = true;
  std::uint64_t seed = 0;               ///< seed of the run
  std::uint64_t number = 0;             ///< optimizer steps done so far by this model
  std::span<const std::int64_t> ids{};  ///< global index of each row's sample in its data set
  AllReduce* ranks = nullptr;           ///< null: batch-norm statistics are this rank's own
  Index index = 0;                      ///< of the step in its epoch: where keep() puts the loss
  float loss_weight = 1;                ///< of each row's loss in the gradient
  SgdStep sgd{};                        ///< of the update that ends the step: one of the two
  std::array<AdamStep, 2> adam{};       ///< of two groups of parameters, whose moments may differ in age
};

}  // namespace mrmf
