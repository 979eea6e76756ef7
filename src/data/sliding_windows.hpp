// Overlapping windows over a sample that a model takes in pieces, and how their outputs become one.
#pragma once

#include <optional>
#include <vector>

#include "io/rows/sample_order.hpp"
#include "kernels/tensor.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/config/config.hpp"

namespace mrmf {

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
    std::vector<std::vector<float>> weights;  // of the positions of each
  };
  Axis make_axis(const PatchSettings& settings, const Reach& reach, std::size_t axis);
  Extent grid_index(Index number) const;  // number of the window along each axis

  Extent size_, patch_;
  bool exact_ = true;
  std::array<Axis, 3> axes_;
};

}  // namespace mrmf
