// Sliding windows: overlapping windows over a sample (data.patch), how their outputs become one, and a model that
// takes boxes of samples, run over whole ones. Where ranks share each sample (run.grid), each has its block of every
// window.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "io/rows/sample_order.hpp"
#include "kernels/backend.hpp"
#include "kernels/tensor.hpp"
#include "layers/geometry_and_reach.hpp"
#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

// Overlapping windows over a sample that a model takes in pieces, and how their outputs become one.

/// ConfigError when data.patch does not suit the data or the network: another number of axes, more positions than
/// samples have, labels with other positions, a size that is no multiple of what the network divides by. `sample` and
/// `label` at full resolution.
void require_patch(const Config& config, const Shape& sample, const Shape& label);

/// Windows of one size cover a sample. Where several see a position, each counts by a weight that falls smoothly
/// towards the window's borders, and all weights of a position add up to 1. Where the windows overlap by more than the
/// network looks beyond a position, outputs that would look beyond their window weigh nothing: then the whole is what
/// the network would make of the whole sample, up to rounding.
class Windows {
 public:
  /// Windows of patch_of(settings, sample) begin in steps in which the network repeats itself.
  Windows(const PatchSettings& settings, const Shape& sample, const Reach& reach);

  Index count() const;
  Box box(Index number) const;
  /// Whether the outputs are those of the whole sample.
  bool exact() const { return exact_; }
  /// Adds the output of a window, a number for each channel of its positions, to that of the whole sample. With `part`,
  /// `y` is the output at these positions of the window alone.
  void add(Index number, ConstSpan y, Index channels, Span whole, const std::optional<Box>& part = {}) const;

 private:
  /// Along one axis.
  struct Axis {
    std::vector<Index> first;                 // where each window begins
    std::vector<std::vector<float>> weights;  // the weight of each position of each
  };
  Axis make_axis(const PatchSettings& settings, const Reach& reach, std::size_t axis);
  Extent grid_index(Index number) const;  // number of the window along each axis

  Extent size_, patch_;
  bool exact_ = true;
  std::array<Axis, 3> axes_;
};

// A model that takes boxes of samples, run over whole ones: their windows, outputs that become one, and its loss. Where
// ranks share each sample (run.grid), each has its block of every window.

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

  Shape output() const { return output_; }  ///< the shape of a whole sample's output, n = 0
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
