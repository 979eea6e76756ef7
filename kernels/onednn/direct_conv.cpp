// Convolutions on the direct kernels: splits the planes of all samples over threads.
#include <omp.h>

#include <algorithm>

#include "kernels/onednn/direct_conv_op.hpp"
#include "kernels/onednn/instruction_set.hpp"

namespace mrmf::onednn {
namespace {

using direct::Kernels;

/// Winograd's kernels take four positions along the last axis, for which rows fill the registers.
bool winograd_serves(const ConvGeometry& c) {
  constexpr Index least_rows = 6, least_width = 4;
  const auto at_most = [](Index pad, Index kernel) { return pad >= 0 && pad < kernel; };
  for (const std::size_t a : {1U, 2U})
    if (!at_most(c.pad_before[a], c.kernel[a]) || !at_most(c.pad_after[a], c.kernel[a])) return false;
  return c.kernel[2] == 3 && std::min(c.out()[1], c.in[1]) >= least_rows &&
         std::min(c.out()[2], c.in[2]) >= least_width;
}

/// oneDNN's own kernels are the better ones on AVX-512; below it its weight gradients go through im2col.
const Kernels* choose_kernels(const ConvGeometry& c) {
  if (instruction_set() != InstructionSet::avx2) return nullptr;
  return winograd_serves(c) ? direct::avx2_winograd_kernels() : direct::avx2_kernels();
}

/// A plane must hold enough positions to be worth a sweep over the weight gradient.
bool supported(const ConvGeometry& c, const Kernels& kernels) {
  constexpr Index least_positions = 64;
  const Extent out = c.out();
  return c.stride == Extent{1, 1, 1} && c.out_channels % kernels.lanes == 0 && out[1] * out[2] >= least_positions;
}

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

}  // namespace

DirectConv::DirectConv(const Kernels& kernels, const ConvGeometry& geometry)
    : forward_(kernels, geometry),
      data_(kernels, data_gradient(geometry)),
      bias_(make_arena(std::max(forward_.g.padded_out, data_.g.padded_out))),
      packed_(make_arena(std::max(forward_.sizes.packed, data_.sizes.packed))) {
  for (int t = 0; t < omp_get_max_threads(); ++t) {
    forward_rings_.emplace_back(forward_);
    data_rings_.emplace_back(data_);
    gradients_.push_back(make_arena(forward_.sizes.gradient));
  }
}

void DirectConv::forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y) {
  forward_.kernels.pack(forward_.g, w.data(), packed_.span().data());
  std::ranges::copy(b, bias_.span().begin());
  convolve(forward_, forward_rings_, input, y);
}

void DirectConv::backward_data(ConstTensor dy, ConstSpan w, Tensor dx) {
  data_.kernels.pack_mirrored(data_.g, w.data(), packed_.span().data());
  std::ranges::fill(bias_.span(), 0.0F);
  convolve(data_, data_rings_, {dy.data.data()}, dx);
}

void DirectConv::convolve(const Sweep& sweep, std::vector<PlaneRing>& rings, const PlaneInput& input, Tensor y) {
#pragma omp parallel num_threads(threads())
  {
    PlaneRing& ring = rings[static_cast<std::size_t>(omp_get_thread_num())];
    ring.start();
#pragma omp for schedule(static)
    for (Index plane = 0; plane < y.shape.n * sweep.planes; ++plane)
      sweep.kernels.forward(sweep.g, ring.under(input, plane), {packed_.span().data(), bias_.span().data()},
                            y.data.data() + plane * sweep.output_plane());
  }
}

void DirectConv::backward_weights_of(const PlaneInput& input, ConstTensor dy, Span dw, Span db, TapSums* taps) {
  const Sweep& sweep = forward_;
  const direct::Geometry& g = sweep.g;
  const std::size_t floats = gradients_[0].span().size();
  std::size_t granted = 1;  // OpenMP may give fewer threads than asked
  if (taps != nullptr) taps->start();
#pragma omp parallel num_threads(threads())
  {
    const int thread = omp_get_thread_num();
    const auto own = static_cast<std::size_t>(thread);
#pragma omp single nowait
    granted = static_cast<std::size_t>(omp_get_num_threads());
    const Span gradient = gradients_[own].span();
    std::ranges::fill(gradient, 0.0F);
    forward_rings_[own].start();
#pragma omp for schedule(static)
    for (Index plane = 0; plane < dy.shape.n * sweep.planes; ++plane) {
      const float* from = dy.data.data() + plane * sweep.output_plane();
      sweep.kernels.weights(g, forward_rings_[own].under(input, plane), from, gradient.data());
      if (taps != nullptr) taps->add_plane(thread, plane, from);
    }
#pragma omp for schedule(static)
    for (std::size_t i = 0; i < floats; ++i)  // the threads in their order
      for (std::size_t t = 1; t < granted; ++t) gradients_[0].span()[i] += gradients_[t].span()[i];
#pragma omp for schedule(static)
    for (Index o = 0; o < g.out_channels; o += sweep.kernels.lanes)
      sweep.kernels.unpack(g, gradients_[0].span().data(), o, dw.data(), db.data());
  }
}

std::unique_ptr<DirectConv> DirectConv::make(const ConvGeometry& geometry) {
  const Kernels* kernels = choose_kernels(geometry);
  if (kernels == nullptr || !supported(geometry, *kernels)) return nullptr;
  return std::make_unique<DirectConv>(*kernels, geometry);
}

}  // namespace mrmf::onednn
