// A model in training as the program trains it, on a backend whose memory the host may not see: batches go through its
// feed, steps as graphs.
#pragma once

#include <vector>

#include "src/training/model_and_optimizer.hpp"
#include "tests/unit/support/small_model.hpp"

namespace mrmf::test {

/// Every kind of layer, and what backends offer fused: conv 2->6 k3, max pool 2, ReLU; conv 6->5 k3, batch norm, leaky
/// ReLU, average pool 2; conv 5->8 k2, batch norm, ReLU; flatten, batch norm, dense 10, tanh, dropout, dense 3.
ModelSettings fusable_model(Index length, std::uint64_t seed);

/// Adam; 8 rows at most.
class DeviceTraining {
 public:
  /// `key` tells this model's captured steps from those of others on the same backend.
  DeviceTraining(Backend& backend, const ModelSettings& settings, std::uint64_t key = 0);

  /// A step on a batch of `number`, with learning rate and loss weight that depend on it; its loss goes to `index`.
  void train(Index rows, std::uint64_t number, Index index);
  /// The loss of a batch goes to `index`.
  void evaluate(Index rows, std::uint64_t number, Index index);

  std::vector<float> losses() { return read(losses_.span()); }
  std::vector<float> gradients() { return read(model_state.model.grads()); }
  /// Parameters, state and moments.
  std::vector<float> everything();
  int calls() const { return calls_; }  ///< how often the calls of a step were made, rather than a record replayed

  ModelState model_state;

 private:
  Feed::Batch load(const Batch& batch, std::uint64_t number);
  std::vector<float> read(ConstSpan span);

  Backend& backend_;
  std::uint64_t key_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<LossOp> loss_;
  Arena losses_;
  int calls_ = 0;
};

}  // namespace mrmf::test
