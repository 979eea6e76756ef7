// A model that takes boxes of samples, run over whole ones: their windows, outputs that become one, and its loss. Where
// ranks share each sample (run.grid), each has its block of every window.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/sliding_windows.hpp"

namespace mrmf {

/// Whole samples of one shape, one after the other. Outputs, labels and loss are in the host's memory, on any backend.
class WindowedModel {
 public:
  /// For samples of this shape at the model's resolution. `sharing`: the ranks that share each sample with this one,
  /// all of which have it whole; null: there are none. Keeps references to backend, model and ranks.
  WindowedModel(Backend& backend, Model& model, const Config& config, const Extent& resolution, const Shape& sample,
                Comm* sharing = nullptr);

  /// Runs the model on a batch of windows. Their numbers are the step's ids.
  using Forward = std::function<ConstTensor(const StepContext& step, ConstTensor x)>;
  /// The outputs for a sample, float32 and channels last; valid until the next call. Collective over the ranks that
  /// share it: each comes to all of the outputs.
  ConstSpan run(ConstSpan sample, StepContext step, const Forward& forward);
  /// The outputs for a sample by Model::forward().
  ConstSpan run(ConstSpan sample);

  /// The loss of a whole sample, as LossOp has it.
  double loss(ConstSpan outputs, ConstSpan targets);

  Shape output() const { return output_; }  ///< of a whole sample, n = 0
  Index windows() const { return windows_.count(); }
  bool exact() const { return windows_.exact(); }

 private:
  Backend& backend_;
  Model& model_;
  LossSettings loss_settings_;
  Comm* sharing_;
  Shape sample_, patch_, output_;
  Windows windows_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<Backend> host_;  // computes losses, in double
  std::unique_ptr<LossOp> loss_;
  Index target_width_ = 0;
  std::vector<float> part_, whole_;
};

}  // namespace mrmf
