// Convolutions on the direct kernels, also fused with the batch norm of the network's input.
#include <omp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/direct_passes.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {
namespace {

/// Calls body(first, count) for planes [first, last) in equal groups of at most `most`.
template <class Body>
void for_groups(Index first, Index last, Index most, const Body& body) {
  const Index groups = (last - first + most - 1) / most;
  for (Index i = 0; i < groups; ++i) {
    const Index begin = first + (last - first) * i / groups, end = first + (last - first) * (i + 1) / groups;
    body(begin, end - begin);
  }
}

/// Convolutions on the direct kernels: splits the planes of all samples over threads. Weights in the kernels' form and
/// gradients of parts lie in the workspace, too.
class DirectConv final : public WeightedOp {
 public:
  /// Null where these kernels do not serve.
  static std::unique_ptr<DirectConv> make(DirectKernels kernels, const ConvGeometry& geometry, SharedWorkspace memory);

  DirectConv(const direct::Kernels& kernels, const ConvGeometry& geometry, Index room, SharedWorkspace memory);

  /// Takes the memory of all passes. The constructor takes none: a plan makes many networks and trains none.
  void prepare(Index) override {
    memory_->reserve(std::max(bias_at_ + bias_floats(), parts_ * gradient_floats_),
                     std::max({forward_.rings.floats(), data_.rings.floats(), weights_.rings.floats()}));
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override { forward_of({x.data.data()}, w, b, y); }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override;
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    backward_weights_of({x.data.data()}, dy, dw, db, nullptr);
  }

  /// The same for a map's output on x, which is never stored.
  void forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y);
  /// taps, unless null, gets sums of dy while each plane is in the cache.
  void backward_weights_of(const PlaneInput& input, ConstTensor dy, Span dw, Span db, TapSums* taps);

 private:
  Index bias_floats() const { return std::max(forward_.whole().g.padded_out, data_.whole().g.padded_out); }
  direct::PackedWeights packed(const Pass& pass, std::size_t lattice) const {
    return {memory_->common() + pass.packed_at[lattice], memory_->common() + bias_at_};
  }
  Span gradient(Index part) const {
    return {memory_->common() + part * gradient_floats_, static_cast<std::size_t>(gradient_floats_)};
  }
  void pack(const Pass& pass, direct::Weights w, ConstSpan b);  // w without its taps; no b: zeros
  void convolve(Pass& pass, const PlaneInput& input, Tensor y);
  void convolve_together(Pass& pass, const PlaneInput& input, Tensor y);
  /// Planes of dy, counted over all samples, whose gradient is summed alone.
  struct Part {
    Index number, first, last;
  };
  void add_weights(std::vector<PlaneRing>& rings, const PlaneInput& input, ConstTensor dy, const Part& part,
                   TapSums* taps);

  int threads_;
  SharedWorkspace memory_;
  Pass forward_, data_, weights_;
  Index bias_at_;                  // where the bias lies behind the packed weights
  Index gradient_floats_, parts_;  // of a part of the planes, weights and bias
};

/// Whether the second and third axis have less padding than taps.
bool little_padding(const ConvGeometry& c) {
  const auto at_most = [](Index pad, Index kernel) { return pad >= 0 && pad < kernel; };
  return std::ranges::all_of(std::array{1U, 2U}, [&](std::size_t a) {
    return at_most(c.pad_before[a], c.kernel[a]) && at_most(c.pad_after[a], c.kernel[a]);
  });
}

/// Winograd's kernels take four positions along the last axis, and rows to fill the registers.
bool winograd_serves(const ConvGeometry& c) {
  constexpr Index least_rows = 6, least_width = 4;
  const Extent one{1, 1, 1};
  return c.stride == one && little_padding(c) && c.kernel[2] == 3 && std::min(c.out()[1], c.in[1]) >= least_rows &&
         std::min(c.out()[2], c.in[2]) >= least_width;
}

bool amx_serves(const ConvGeometry& c) {
  return has_amx() && little_padding(c) && c.in[2] * c.in_channels % direct::amx_kernels().fp32.lanes == 0;
}

/// Null where they do not serve.
const Kernels* find_kernels(DirectKernels kernels, const ConvGeometry& c) {
  using Algorithm = DirectKernels::Algorithm;
  if (kernels.set > instruction_set()) return nullptr;
  const direct::KernelSet& of =
      of_set(kernels.set, direct::generic_kernels, direct::avx2_kernels, direct::avx512_kernels)();
  const bool rows = c.kernel[1] == 3 && c.stride == Extent{1, 1, 1};  // for Winograd's along the second axis
  const bool winograd = winograd_serves(c), amx = amx_serves(c);
  switch (kernels.algorithm) {
    case Algorithm::plain: return &of.plain;
    case Algorithm::winograd: return winograd ? &of.winograd : nullptr;
    case Algorithm::winograd_planes: return winograd && rows ? &of.winograd_planes : nullptr;
    case Algorithm::amx: return amx ? &direct::amx_kernels().fp32 : nullptr;
    case Algorithm::amx_winograd: return amx && rows ? &direct::amx_kernels().winograd : nullptr;
    case Algorithm::amx_bf16: return amx ? &direct::amx_kernels().bf16 : nullptr;
  }
  return nullptr;
}

/// A plane must have enough positions to be worth a pass over the weight gradient.
bool supported(const ConvGeometry& c, const Kernels& kernels) {
  constexpr Index least_positions = 64;
  const Extent out = c.out(), one{1, 1, 1};
  return c.dilation == one && c.out_channels % kernels.lanes == 0 && out[1] * out[2] >= least_positions;
}

DirectConv::DirectConv(const Kernels& kernels, const ConvGeometry& geometry, Index room, SharedWorkspace memory)
    : threads_(memory->threads()),
      memory_(std::move(memory)),
      forward_(kernels, cpu::forward_of(geometry), room, false, threads_),
      data_(kernels, data_gradient_of(geometry), room, false, threads_),
      weights_(kernels, cpu::forward_of(geometry), room, true, threads_),
      bias_at_(std::max(forward_.packed, data_.packed)),
      gradient_floats_(whole_lines(forward_.whole().sizes.gradient)),
      parts_(sum_parts(threads_, gradient_floats_)) {}

void DirectConv::pack(const Pass& pass, direct::Weights w, ConstSpan b) {
  const Sweep& whole = pass.whole();
  float *const packed = memory_->common(), *const bias = packed + bias_at_;
  std::fill_n(bias, whole.g.padded_out, 0.0F);
  std::ranges::copy(b, bias);
  const Index lanes = whole.kernels.lanes, vectors = whole.g.padded_out / lanes;
  share_out(vectors * std::ssize(whole.parts), threads_, [&](Index first, Index last, int) {
    for (Index i = first; i < last; ++i) {
      const auto number = static_cast<std::size_t>(i / vectors);
      direct::Weights of = w;
      of.taps = pass.shape.lattices[number].taps.data();
      whole.kernels.pack(whole.parts[number].g, of, i % vectors * lanes, packed + pass.packed_at[number]);
    }
  });
}

void DirectConv::forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y) {
  prepare(y.shape.n);
  pack(forward_, {w.data(), forward_.whole().g.depth, nullptr, 1}, b);
  convolve(forward_, input, y);
}

void DirectConv::backward_data(ConstTensor dy, ConstSpan w, Tensor dx) {
  prepare(dx.shape.n);
  pack(data_, {w.data(), 1, nullptr, forward_.whole().g.depth}, {});
  Index positions = 1;  // first ones of lattices
  for (std::size_t a = 0; a < 3; ++a) positions *= std::min(data_.shape.apart[a], data_.shape.to[a]);
  if (std::ssize(data_.shape.lattices) < positions) {  // some meet no tap
    const Index planes = data_.shape.to[0], floats = data_.whole().output_sample / planes;
    share_out(dx.shape.n * planes, threads_, [&](Index first, Index last, int) {
      std::fill_n(dx.data.data() + first * floats, (last - first) * floats, 0.0F);
    });
  }
  convolve(data_, {dy.data.data()}, dx);
}

void DirectConv::convolve_together(Pass& pass, const PlaneInput& input, Tensor y) {
  const Sweep& sweep = pass.whole();
  const Index planes = y.shape.n * sweep.planes, most = sweep.g.together;
  const Index groups = std::min(planes, ((planes + most - 1) / most + threads_ - 1) / threads_ * threads_);
  const bool stream = streams(y);
  share_out(groups, threads_, [&](Index begin, Index end, int thread) {
    PlaneRing& ring = pass.rings.of(thread, *memory_).front();
    for (Index i = begin; i < end; ++i) {
      const Index first = planes * i / groups;
      direct::Geometry g = sweep.parts.front().g;
      g.stream = stream, g.there = planes * (i + 1) / groups - first;
      sweep.kernels.forward(g, ring.together(sweep, g, input, first), packed(pass, 0),
                            y.data.data() + first * sweep.output_plane);
    }
  });
}

// Planes of a band follow each other, because they share their input planes.
void DirectConv::convolve(Pass& pass, const PlaneInput& input, Tensor y) {
  const Bands& bands = pass.bands;
  const Index planes = bands.whole().planes, count = bands.count();
  pass.rings.start();
  if (bands.whole().g.together > 1) return convolve_together(pass, input, y);
  const bool stream = streams(y);
  share_out(y.shape.n * count * planes, threads_, [&](Index first, Index last, int thread) {
    std::vector<PlaneRing>& rings = pass.rings.of(thread, *memory_);
    for (Index i = first; i < last; ++i) {
      const Index unit = i / planes, plane = i % planes;
      const Sweep& band = bands[unit % count];
      const float* const* under = rings[bands.kind(unit % count)].under(band, input, unit, count, plane);
      float* const to = y.data.data() + unit / count * band.output_sample + plane * band.output_plane + band.output_row;
      for (std::size_t p = 0; p < band.parts.size(); ++p) {
        const Sweep::Part& part = band.parts[p];
        if (plane >= part.planes || part.g.rows == 0) continue;
        direct::Geometry g = part.g;
        g.stream = stream;
        band.kernels.forward(g, under + part.first_plane, packed(pass, p), to + part.at);
      }
    }
  });
}

void DirectConv::add_weights(std::vector<PlaneRing>& rings, const PlaneInput& input, ConstTensor dy, const Part& part,
                             TapSums* taps) {
  const Index count = weights_.bands.count(), planes = weights_.whole().planes;
  float* const sums = gradient(part.number).data();
  for (Index band = 0; band < count; ++band) {
    const Sweep& sweep = weights_.bands[band];
    PlaneRing& ring = rings[weights_.bands.kind(band)];
    for_groups(part.first, part.last, sweep.g.together, [&](Index plane, Index there) {
      const float* from = dy.data.data() + plane * sweep.output_plane;
      direct::Geometry now = sweep.g;
      now.there = there;
      const float* const* under = sweep.g.together > 1
                                      ? ring.together(sweep, now, input, plane)
                                      : ring.under(sweep, input, plane / planes * count + band, count, plane % planes);
      sweep.kernels.weights(now, under, from + sweep.output_row, sums);
      for (Index p = 0; taps != nullptr && band == 0 && p < there; ++p)
        taps->add_plane(part.number, plane + p, from + p * sweep.output_plane);
    });
  }
}

void DirectConv::backward_weights_of(const PlaneInput& input, ConstTensor dy, Span dw, Span db, TapSums* taps) {
  prepare(dy.shape.n);
  const Sweep& sweep = weights_.whole();
  const Index planes = dy.shape.n * sweep.planes, parts = std::min(parts_, planes);
  if (taps != nullptr) taps->start(parts);
  SharedLoop loop(parts, threads_);
  weights_.rings.start();
#pragma omp parallel num_threads(threads_)
  {
    const int thread = omp_get_thread_num();
    while (const auto part = loop.next(thread)) {
      const Index number = part->first;
      std::ranges::fill(gradient(number), 0.0F);
      add_weights(weights_.rings.of(thread, *memory_), input, dy,
                  {number, planes * number / parts, planes * part->last / parts}, taps);
    }
#pragma omp barrier
    constexpr Index block = 1024;  // floats
#pragma omp for schedule(static)
    for (Index first = 0; first < gradient_floats_; first += block)
      for (Index p = 1; p < parts; ++p) {  // always in their order
        float *const sum = gradient(0).data(), *const more = gradient(p).data();
        for (Index i = first; i < std::min(gradient_floats_, first + block); ++i) sum[i] += more[i];
      }
#pragma omp for schedule(static)
    for (Index o = 0; o < sweep.g.out_channels; o += sweep.kernels.lanes)
      sweep.kernels.unpack(sweep.g, gradient(0).data(), o, dw.data(), db.data());
  }
}

std::unique_ptr<DirectConv> DirectConv::make(DirectKernels kernels, const ConvGeometry& geometry,
                                             SharedWorkspace memory) {
  const Kernels* found = find_kernels(kernels, geometry);
  if (found == nullptr || !supported(geometry, *found)) return nullptr;
  if (data_gradient_of(geometry).lattices.empty()) return nullptr;  // no position of x meets a tap
  return std::make_unique<DirectConv>(*found, geometry, kernels.room, std::move(memory));
}

/// direct::Affine for a row of the input.
class RowMap {
 public:
  RowMap(Index width, Index channels) : channels_(static_cast<std::size_t>(channels)) {
    for (std::vector<float>* row : {&mean_, &factor_, &beta_}) row->resize(static_cast<std::size_t>(width * channels));
  }
  /// beta null: zeros
  direct::Affine operator()(const float* mean, const float* factor, const float* beta) {
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      const std::size_t c = i % channels_;
      mean_[i] = mean[c], factor_[i] = factor[c], beta_[i] = beta == nullptr ? 0.0F : beta[c];
    }
    return {mean_.data(), factor_.data(), beta_.data()};
  }

 private:
  std::size_t channels_;
  std::vector<float> mean_, factor_, beta_;
};

/// The batch norm of a network's input and the convolution behind it, on the direct kernels. These normalise the
/// input's rows as they copy them, so the normalised values are never stored.
class DirectNormConv final : public NormConvOp {
 public:
  DirectNormConv(const NormSettings& settings, std::unique_ptr<DirectConv> conv, const ConvGeometry& geometry)
      : norm_(settings),
        conv_(std::move(conv)),
        geometry_(geometry),
        taps_(geometry),
        map_(geometry.in[2], geometry.in_channels) {}

  void prepare(Index rows) override { conv_->prepare(rows); }
  void forward(const StepContext& step, const Forward& f) override {
    if (step.training) norm_.update_statistics(step, f.x.data, f.memory);
    const norm_loops::Terms terms = norm_.terms(step, f.memory);
    const direct::Affine map = map_(terms.mean, terms.factor, terms.beta);
    conv_->forward_of({f.x.data.data(), &map}, f.w, f.b, f.y);
  }

  void backward(const Backward& b) override {
    const direct::Affine map = map_(b.memory.mean.data(), b.memory.inverse_deviation.data(), nullptr);
    conv_->backward_weights_of({b.x.data.data(), &map}, b.dy, b.dw, b.db, &taps_);
    norm_conv_gradients(b, geometry_, taps_.total());
  }

 private:
  NormSums norm_;
  std::unique_ptr<DirectConv> conv_;
  ConvGeometry geometry_;
  TapSums taps_;
  RowMap map_;
};

}  // namespace

std::unique_ptr<WeightedOp> make_direct_conv(DirectKernels kernels, const ConvGeometry& geometry,
                                             SharedWorkspace memory) {
  return DirectConv::make(kernels, geometry, std::move(memory));
}

std::unique_ptr<NormConvOp> make_direct_norm_conv(DirectKernels kernels, const NormSettings& settings,
                                                  const ConvGeometry& geometry, SharedWorkspace memory) {
  auto conv = DirectConv::make(kernels, geometry, std::move(memory));
  if (conv == nullptr) return nullptr;
  return std::make_unique<DirectNormConv>(settings, std::move(conv), geometry);
}

}  // namespace mrmf::cpu
