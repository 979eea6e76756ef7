// What the direct convolution does around its kernels' planes: geometry, and the copies of input planes.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/onednn/direct_conv.hpp"
#include "kernels/onednn/memory.hpp"

namespace mrmf::onednn {

/// One pass: a convolution, or a data gradient as the convolution that it is, by these kernels.
struct Sweep {
  const direct::Kernels& kernels;
  direct::Geometry g{};
  direct::Sizes sizes{};
  Extent in;
  Index planes_before, planes;  ///< of padding, of output

  Sweep(const direct::Kernels& of, const ConvGeometry& c)
      : kernels(of), in(c.in), planes_before(c.pad_before[0]), planes(c.out()[0]) {
    const Extent out = c.out();
    g.in_channels = c.in_channels;
    g.out_channels = c.out_channels;
    std::ranges::copy(c.kernel, g.kernel);
    g.rows = out[1], g.width = out[2];
    g.in_rows = c.in[1], g.in_width = c.in[2];
    g.rows_before = c.pad_before[1], g.columns_before = c.pad_before[2];
    g.padded_width = out[2] + c.kernel[2] - 1;
    g.row = c.kernel[2] * c.in_channels;
    g.depth = c.kernel[0] * c.kernel[1] * g.row;
    g.padded_out = (c.out_channels + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
    sizes = kernels.sizes(g);
  }
  Index input_plane() const { return in[1] * in[2] * g.in_channels; }
  Index output_plane() const { return g.rows * g.width * g.out_channels; }
};

/// x through `map`, unless that is null.
struct PlaneInput {
  const float* x;
  const direct::Affine* map = nullptr;
};

/// One thread's copies of the input planes under an output plane. The next output plane shares all but one.
class PlaneRing {
 public:
  explicit PlaneRing(const Sweep& sweep)
      : sweep_(sweep),
        copies_(make_arena(sweep.g.kernel[0] * sweep.sizes.plane)),
        held_(static_cast<std::size_t>(sweep.g.kernel[0]), -1),
        planes_(held_.size()) {}

  void start() { std::ranges::fill(held_, -1); }
  /// The planes under output plane `index`, counted over all samples of x.
  const float* const* under(const PlaneInput& input, Index index) {
    const Index sample = index / sweep_.planes, first = index % sweep_.planes - sweep_.planes_before;
    for (Index i = 0; i < sweep_.g.kernel[0]; ++i) {
      const Index plane = first + i;
      const bool there = plane >= 0 && plane < sweep_.in[0];
      planes_[static_cast<std::size_t>(i)] = there ? copy(input, sample * sweep_.in[0] + plane) : nullptr;
    }
    return planes_.data();
  }

 private:
  const float* copy(const PlaneInput& input, Index plane) {
    const Index slot = plane % sweep_.g.kernel[0];
    float* to = copies_.span().data() + slot * sweep_.sizes.plane;
    if (std::exchange(held_[static_cast<std::size_t>(slot)], plane) != plane)
      sweep_.kernels.copy(sweep_.g, input.x + plane * sweep_.input_plane(), input.map, to);
    return to;
  }

  const Sweep& sweep_;
  Arena copies_;
  std::vector<Index> held_;  // the plane in each slot
  std::vector<const float*> planes_;
};

}  // namespace mrmf::onednn
