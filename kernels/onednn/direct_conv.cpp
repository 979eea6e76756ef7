// ConvOp on the direct kernels: pads the input plane by plane, splits the planes of all samples over threads.
#include "kernels/onednn/direct_conv.hpp"

#include <omp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/onednn/instruction_set.hpp"
#include "kernels/onednn/memory.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {
namespace {

using direct::Geometry;

/// oneDNN's own kernels are the better ones on AVX-512; below it its weight gradients go through im2col.
const direct::Kernels* choose_kernels() {
  return instruction_set() == InstructionSet::avx2 ? direct::avx2_kernels() : nullptr;
}

/// A plane must hold enough positions to be worth a sweep over the weight gradient.
bool supported(const ConvGeometry& c, const direct::Kernels& kernels) {
  constexpr Index least_positions = 64;
  const Extent out = c.out();
  return c.stride == Extent{1, 1, 1} && c.out_channels % kernels.lanes == 0 && out[1] * out[2] >= least_positions;
}

/// One pass: a convolution, or a data gradient as the convolution that it is, and how to pad its input.
struct Sweep {
  Geometry g;
  Extent in, before;
  Index planes;  ///< of output

  Sweep(const ConvGeometry& c, Index lanes) : in(c.in), before(c.pad_before), planes(c.out()[0]) {
    const Extent out = c.out();
    g.in_channels = c.in_channels;
    g.out_channels = c.out_channels;
    g.kernel[0] = c.kernel[0], g.kernel[1] = c.kernel[1];
    g.rows = out[1], g.width = out[2];
    g.in_rows = c.in[1];
    g.rows_before = c.pad_before[1];
    g.padded_width = out[2] + c.kernel[2] - 1;
    g.row = c.kernel[2] * c.in_channels;
    g.depth = c.kernel[0] * c.kernel[1] * g.row;
    g.padded_out = (c.out_channels + lanes - 1) / lanes * lanes;
  }
  Index input_plane() const { return in[1] * in[2] * g.in_channels; }
  Index padded_plane() const { return in[1] * g.padded_width * g.in_channels; }
  Index output_plane() const { return g.rows * g.width * g.out_channels; }
};

ConvGeometry data_gradient(const ConvGeometry& c) {
  ConvGeometry d = c;
  d.in = c.out();
  std::swap(d.in_channels, d.out_channels);
  for (std::size_t a = 0; a < 3; ++a) {
    d.pad_before[a] = c.kernel[a] - 1 - c.pad_before[a];
    d.pad_after[a] = c.kernel[a] - 1 - c.pad_after[a];
  }
  return d;
}

/// One thread's padded copies of the input planes under an output plane. The next output plane shares all but one.
class PlaneRing {
 public:
  explicit PlaneRing(const Sweep& sweep)
      : sweep_(sweep),
        copies_(make_arena(sweep.g.kernel[0] * sweep.padded_plane())),
        held_(static_cast<std::size_t>(sweep.g.kernel[0]), -1),
        planes_(held_.size()) {}

  void start() { std::ranges::fill(held_, -1); }
  /// The planes under output plane `index`, counted over all samples of x.
  const float* const* under(const float* x, Index index) {
    const Index sample = index / sweep_.planes, first = index % sweep_.planes - sweep_.before[0];
    for (Index i = 0; i < sweep_.g.kernel[0]; ++i) {
      const Index plane = first + i;
      const bool there = plane >= 0 && plane < sweep_.in[0];
      planes_[static_cast<std::size_t>(i)] = there ? copy(x, sample * sweep_.in[0] + plane) : nullptr;
    }
    return planes_.data();
  }

 private:
  const float* copy(const float* x, Index plane) {
    const Index slot = plane % sweep_.g.kernel[0], width = sweep_.in[2] * sweep_.g.in_channels;
    float* to = copies_.span().data() + slot * sweep_.padded_plane();
    if (std::exchange(held_[static_cast<std::size_t>(slot)], plane) == plane) return to;
    for (Index row = 0; row < sweep_.in[1]; ++row)  // what is not written is padding, and was zero from the start
      std::copy_n(x + plane * sweep_.input_plane() + row * width, width,
                  to + (row * sweep_.g.padded_width + sweep_.before[2]) * sweep_.g.in_channels);
    return to;
  }

  const Sweep& sweep_;
  Arena copies_;
  std::vector<Index> held_;  // the plane in each slot
  std::vector<const float*> planes_;
};

class DirectConv final : public ConvOp {
 public:
  DirectConv(const direct::Kernels& kernels, const ConvGeometry& geometry)
      : kernels_(kernels),
        forward_(geometry, kernels.lanes),
        data_(data_gradient(geometry), kernels.lanes),
        bias_(make_arena(std::max(forward_.g.padded_out, data_.g.padded_out))),
        packed_(make_arena(std::max(forward_.g.depth * forward_.g.padded_out, data_.g.depth * data_.g.padded_out))) {
    for (int t = 0; t < omp_get_max_threads(); ++t) {
      forward_rings_.emplace_back(forward_);
      data_rings_.emplace_back(data_);
      gradients_.push_back(make_arena((forward_.g.depth + 1) * forward_.g.out_channels));
    }
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    kernels_.pack(forward_.g, w.data(), packed_.span().data());
    std::ranges::copy(b, bias_.span().begin());
    convolve(forward_, forward_rings_, x, y);
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    kernels_.pack_mirrored(data_.g, w.data(), packed_.span().data());
    std::ranges::fill(bias_.span(), 0.0F);
    convolve(data_, data_rings_, dy, dx);
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    const Geometry& g = forward_.g;
    std::size_t granted = 1;  // OpenMP may give fewer threads than asked
#pragma omp parallel num_threads(threads())
    {
      const auto thread = static_cast<std::size_t>(omp_get_thread_num());
#pragma omp single nowait
      granted = static_cast<std::size_t>(omp_get_num_threads());
      const Span gradient = gradients_[thread].span();
      std::ranges::fill(gradient, 0.0F);
      forward_rings_[thread].start();
#pragma omp for schedule(static)
      for (Index plane = 0; plane < x.shape.n * forward_.planes; ++plane)
        kernels_.weights(g, forward_rings_[thread].under(x.data.data(), plane),
                         dy.data.data() + plane * forward_.output_plane(), gradient.data(),
                         gradient.data() + g.depth * g.out_channels);
#pragma omp for schedule(static)
      for (Index o = 0; o < g.out_channels; o += kernels_.lanes) add_threads(granted, o, dw, db);
    }
  }

 private:
  int threads() const { return static_cast<int>(gradients_.size()); }

  void convolve(const Sweep& sweep, std::vector<PlaneRing>& rings, ConstTensor x, Tensor y) {
#pragma omp parallel num_threads(threads())
    {
      PlaneRing& ring = rings[static_cast<std::size_t>(omp_get_thread_num())];
      ring.start();
#pragma omp for schedule(static)
      for (Index plane = 0; plane < x.shape.n * sweep.planes; ++plane)
        kernels_.forward(sweep.g, ring.under(x.data.data(), plane), {packed_.span().data(), bias_.span().data()},
                         y.data.data() + plane * sweep.output_plane());
    }
  }

  /// Sums over the threads that worked in their order, for one vector of output channels from `first` on.
  void add_threads(std::size_t count, Index first, Span dw, Span db) const {
    const Geometry& g = forward_.g;
    for (Index r = 0; r <= g.depth; ++r)
      for (Index o = first; o < first + kernels_.lanes; ++o) {
        float sum = 0;
        for (std::size_t t = 0; t < count; ++t)
          sum += gradients_[t].span()[static_cast<std::size_t>(r * g.out_channels + o)];
        (r < g.depth ? dw[static_cast<std::size_t>(o * g.depth + r)] : db[static_cast<std::size_t>(o)]) = sum;
      }
  }

  const direct::Kernels& kernels_;
  Sweep forward_, data_;
  Arena bias_, packed_;
  std::vector<PlaneRing> forward_rings_, data_rings_;  // per thread
  std::vector<Arena> gradients_;  // per thread: of the weights (depth, out channels), then the bias
};

}  // namespace

std::unique_ptr<ConvOp> make_direct_conv(const ConvGeometry& geometry) {
  const direct::Kernels* kernels = choose_kernels();
  if (kernels == nullptr || !supported(geometry, *kernels)) return nullptr;
  return std::make_unique<DirectConv>(*kernels, geometry);
}

}  // namespace mrmf::onednn
