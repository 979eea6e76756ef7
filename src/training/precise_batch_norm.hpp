// Precise batch norm: the statistics that validation and prediction use, taken anew at the parameters as they are.
// Running averages lag behind parameters that still move, most of all in a short last phase.
#pragma once

#include <vector>

#include "layers/model.hpp"

namespace mrmf {

struct EpochSteps;
struct PhaseContext;

/// Makes batch norms ready for a validation: their statistics are taken anew from the epoch's first `batches` batches
/// (0: they stay), and where each rank has its own, become the mean over the team. Returns the team's rows that this
/// took. Collective.
Index recalibrate_batch_norms(PhaseContext& context, const EpochSteps& epoch, int batches);

/// The mean of every batch norm's statistics over several batches: before(), a forward in training, after(), batch by
/// batch; then finish() puts the mean in the place of the running averages. Parameters stay as they are.
class PreciseBatchNorm {
 public:
  /// `layers`: those of the model. Keeps references to all three.
  PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers);

  /// The model has a batch norm.
  bool any() const;
  void before();
  void after();
  void finish();

 private:
  Backend& backend_;
  Model& model_;
  std::vector<double> momenta_;  // momenta of each value of the state; 0 where it is none of a batch norm
  std::vector<double> sums_;
  std::vector<float> read_;
  int batches_ = 0;
};

}  // namespace mrmf
