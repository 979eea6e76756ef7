// Convolutions on the direct kernels, also fused with the batch norm of the network's input.
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {
namespace {

using direct::Kernels;

/// One pass on these kernels: a convolution, or a data gradient in the form of a convolution.
struct Sweep {
  const direct::Kernels& kernels;
  direct::Geometry g{};
  direct::Sizes sizes{};
  Index in_planes, planes_before, planes;  ///< planes of input, of padding and of output
  Index input_plane, output_plane;         ///< floats
  Index input_row = 0, output_row = 0;     ///< where a band's rows begin in a plane: floats

  /// together: whether planes may be taken together.
  Sweep(const direct::Kernels& of, const ConvGeometry& c, bool together)
      : kernels(of),
        in_planes(c.in[0]),
        planes_before(c.pad_before[0]),
        planes(c.out()[0]),
        input_plane(c.in[1] * c.in[2] * c.in_channels),
        output_plane(c.out()[1] * c.out()[2] * c.out_channels) {
    const Extent out = c.out();
    g.in_channels = c.in_channels, g.out_channels = c.out_channels;
    g.bias = c.bias;
    std::ranges::copy(c.kernel, g.kernel);
    g.rows = out[1], g.width = out[2];
    g.in_rows = c.in[1], g.in_width = c.in[2];
    g.rows_before = c.pad_before[1], g.columns_before = c.pad_before[2];
    g.padded_width = out[2] + c.kernel[2] - 1;
    g.row = c.kernel[2] * c.in_channels, g.depth = c.kernel[0] * c.kernel[1] * g.row;
    g.padded_out = (c.out_channels + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
    g.together = g.there = 1;
    if (together && c.pad_before[0] == 0 && c.pad_after[0] == 0) g.together = kernels.together(g);
    sizes = kernels.sizes(g);
  }
};

/// Rows [first, first + rows) of every output plane as a convolution of their own.
Sweep band_of(const Sweep& whole, ConvGeometry c, Index first, Index rows) {
  const Index from = first - c.pad_before[1], to = from + rows + c.kernel[1] - 1;  // input rows, maybe of the padding
  const Index begin = std::max<Index>(0, from), end = std::min(c.in[1], to);
  const Index input_row = begin * c.in[2] * c.in_channels, output_row = first * c.out()[2] * c.out_channels;
  c.in[1] = end - begin, c.pad_before[1] = begin - from, c.pad_after[1] = to - end;
  Sweep band(whole.kernels, c, false);
  band.input_plane = whole.input_plane, band.output_plane = whole.output_plane;
  band.input_row = input_row, band.output_row = output_row;
  return band;
}

/// Planes in bands of rows, so that the copies of the input planes under a band stay in the L2 cache. Each output is
/// computed as without bands: they begin at multiples of four rows, where tiles of Winograd's kernels do.
class Bands {
 public:
  /// room: bytes for the copies; 0: half of the L2 cache, whose rest is for weights and outputs. plane: copies' size.
  Bands(const direct::Kernels& kernels, const ConvGeometry& c, Index room, long direct::Sizes::*plane)
      : whole_(kernels, c, true) {
    const Index bytes = whole_.sizes.*plane * c.kernel[0] * 4, rows = whole_.g.rows;
    const Index of_band = rows_of_band(c, room > 0 ? room : usual_room(), bytes);
    for (Index first = 0; first < rows; first += of_band)
      bands_.push_back(of_band == rows ? whole_ : band_of(whole_, c, first, std::min(of_band, rows - first)));
  }
  const Sweep& whole() const { return whole_; }
  Index count() const { return std::ssize(bands_); }
  const Sweep& operator[](Index band) const { return bands_[static_cast<std::size_t>(band)]; }
  /// Bands of one kind have their padding at the same places: the first, the last, and those between.
  std::size_t kind(Index band) const { return band == 0 ? 0 : band + 1 == count() ? 1 : 2; }

 private:
  static Index usual_room() {
    static const long l2 = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    constexpr Index usual = Index{512} << 10;
    return (l2 > 0 ? static_cast<Index>(l2) : usual) / 2;
  }
  /// Planes that are taken together are not cut. Otherwise as many rows as there is room for, but some, also in the
  /// last band, and no fewer than there are of padding: so that the bands between see none.
  Index rows_of_band(const ConvGeometry& c, Index room, Index bytes) const {
    const Index least = (std::max({Index{8}, c.pad_before[1], c.pad_after[1]}) + 3) / 4 * 4;
    const Index rows = whole_.g.rows;
    if (whole_.g.together > 1) return rows;
    for (Index bands = std::min(rows / least, (bytes + room - 1) / room); bands > 1; --bands) {
      const Index of_band = ((rows + bands - 1) / bands + 3) / 4 * 4;
      if (of_band >= least && (rows % of_band == 0 || rows % of_band >= least)) return of_band;
    }
    return rows;
  }

  Sweep whole_;
  std::vector<Sweep> bands_;
};

/// The input x, passed through `map` unless that is null.
struct PlaneInput {
  const float* x;
  const direct::Affine* map = nullptr;
};

/// One thread's copies of the input planes under an output plane, of bands of one kind. The next output plane shares
/// all but one of them. Or its copy of planes that are taken together. What is padding in them is zero from the start.
class PlaneRing {
 public:
  PlaneRing(const Sweep& sweep, bool for_weights)
      : copy_(for_weights ? sweep.kernels.copy_for_weights : sweep.kernels.copy),
        plane_(for_weights ? sweep.sizes.plane_for_weights : sweep.sizes.plane),
        copies_(make_arena(sweep.g.kernel[0] * plane_)),
        held_(static_cast<std::size_t>(sweep.g.kernel[0]), -1),
        planes_(held_.size()) {}

  void start() { std::ranges::fill(held_, -1); }
  /// Copies the planes [first, first + g.there), counted over all samples: kernels of one plane in depth need no
  /// others.
  const float* const* together(const Sweep& sweep, const direct::Geometry& g, const PlaneInput& input, Index first) {
    copy_(g, input.x + first * sweep.input_plane, input.map, copies_.span().data());
    planes_[0] = copies_.span().data();
    return planes_.data();
  }
  /// The input planes under output plane `plane` of a sample's band; `unit` counts the bands over all samples of x, of
  /// which each has so many.
  const float* const* under(const Sweep& band, const PlaneInput& input, Index unit, Index bands, Index plane) {
    for (Index i = 0; i < band.g.kernel[0]; ++i) {
      const Index at = plane - band.planes_before + i;
      planes_[static_cast<std::size_t>(i)] =
          at >= 0 && at < band.in_planes ? copy(band, input, {unit, unit / bands, at}) : nullptr;
    }
    return planes_.data();
  }

 private:
  struct InputPlane {
    Index unit, sample, number;
  };
  const float* copy(const Sweep& band, const PlaneInput& input, const InputPlane& plane) {
    const Index slot = plane.number % band.g.kernel[0], known = plane.unit * band.in_planes + plane.number;
    float* to = copies_.span().data() + slot * plane_;
    if (std::exchange(held_[static_cast<std::size_t>(slot)], known) != known)
      copy_(band.g, input.x + (plane.sample * band.in_planes + plane.number) * band.input_plane + band.input_row,
            input.map, to);
    return to;
  }

  decltype(Kernels::copy) copy_;
  Index plane_;  // floats
  Arena copies_;
  std::vector<Index> held_;  // the plane in each slot
  std::vector<const float*> planes_;
};

/// Calls body(first, count) for planes [first, last) in equal groups of at most `most`.
template <class Body>
void for_groups(Index first, Index last, Index most, const Body& body) {
  const Index groups = (last - first + most - 1) / most;
  for (Index i = 0; i < groups; ++i) {
    const Index begin = first + (last - first) * i / groups, end = first + (last - first) * (i + 1) / groups;
    body(begin, end - begin);
  }
}

/// A thread's rings, by the kinds of bands.
using BandRings = std::vector<PlaneRing>;

/// Convolutions on the direct kernels: splits the planes of all samples over threads.
class DirectConv final : public WeightedOp {
 public:
  /// Null where these kernels do not serve.
  static std::unique_ptr<DirectConv> make(DirectKernels kernels, const ConvGeometry& geometry);

  DirectConv(const direct::Kernels& kernels, const ConvGeometry& geometry, Index room);

  /// Takes the memory of all passes, unless it is there. The constructor takes none: a plan makes many networks and
  /// trains none.
  void prepare(Index) override { allocate(); }
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
  /// Whether the weight gradient reads copies as forward's.
  bool shares_rings() const {
    const Kernels& kernels = forward_.whole().kernels;
    return kernels.copy == kernels.copy_for_weights && weights_.count() == forward_.count();  // of one size, then
  }
  void allocate();
  void pack(const Sweep& of, const direct::Weights& w);  // and sets the bias to zeros
  void convolve(const Bands& bands, std::vector<BandRings>& rings, const PlaneInput& input, Tensor y);
  /// Planes of dy, counted over all samples, whose gradient is summed alone.
  struct Part {
    Index number, first, last;
  };
  void add_weights(BandRings& rings, const PlaneInput& input, ConstTensor dy, const Part& part, TapSums* taps);
  void convolve_together(const Sweep& sweep, std::vector<BandRings>& rings, const PlaneInput& input, Tensor y);

  int threads_;
  Bands forward_, data_, weights_;
  Arena bias_, packed_;
  std::vector<BandRings> forward_rings_, data_rings_, weight_rings_;  // one per thread
  std::vector<Arena> gradients_;                                      // one per part of the planes: weights and bias
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
  return little_padding(c) && c.kernel[2] == 3 && std::min(c.out()[1], c.in[1]) >= least_rows &&
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
  const bool three_rows = c.kernel[1] == 3, winograd = winograd_serves(c), amx = amx_serves(c);
  switch (kernels.algorithm) {
    case Algorithm::plain: return &of.plain;
    case Algorithm::winograd: return winograd ? &of.winograd : nullptr;
    case Algorithm::winograd_planes: return winograd && three_rows ? &of.winograd_planes : nullptr;
    case Algorithm::amx: return amx ? &direct::amx_kernels().fp32 : nullptr;
    case Algorithm::amx_winograd: return amx && three_rows ? &direct::amx_kernels().winograd : nullptr;
    case Algorithm::amx_bf16: return amx ? &direct::amx_kernels().bf16 : nullptr;
  }
  return nullptr;
}

/// A plane must have enough positions to be worth a pass over the weight gradient.
bool supported(const ConvGeometry& c, const Kernels& kernels) {
  constexpr Index least_positions = 64;
  const Extent out = c.out(), one{1, 1, 1};
  return c.stride == one && c.dilation == one && c.out_channels % kernels.lanes == 0 &&
         out[1] * out[2] >= least_positions;
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

DirectConv::DirectConv(const Kernels& kernels, const ConvGeometry& geometry, Index room)
    : threads_(omp_get_max_threads()),
      forward_(kernels, geometry, room, &direct::Sizes::plane),
      data_(kernels, data_gradient(geometry), room, &direct::Sizes::plane),
      weights_(kernels, geometry, room, &direct::Sizes::plane_for_weights),
      gradients_(static_cast<std::size_t>(sum_parts(threads_, forward_.whole().sizes.gradient))) {}

/// A ring for each kind of the bands.
BandRings rings_of(const Bands& bands, bool for_weights) {
  BandRings rings;
  for (const Index band : {Index{0}, bands.count() - 1, Index{1}})
    if (std::ssize(rings) < bands.count()) rings.emplace_back(bands[band], for_weights);
  return rings;
}

void DirectConv::allocate() {
  if (bias_.size() > 0) return;
  packed_ = make_arena(std::max(forward_.whole().sizes.packed, data_.whole().sizes.packed));
  for (Arena& gradient : gradients_) gradient = make_arena(forward_.whole().sizes.gradient);
  for (int t = 0; t < threads_; ++t) {
    forward_rings_.push_back(rings_of(forward_, false));
    data_rings_.push_back(rings_of(data_, false));
    if (!shares_rings()) weight_rings_.push_back(rings_of(weights_, true));
  }
  bias_ = make_arena(std::max(forward_.whole().g.padded_out, data_.whole().g.padded_out));
}

/// The weights in the pass's own layout (out channels, taps, in channels).
direct::Weights weights_of(const direct::Geometry& g, const float* w) { return {w, g.depth, g.in_channels, 1}; }

/// Those of the convolution whose data gradient the pass is.
direct::Weights mirrored_weights_of(const direct::Geometry& g, const float* w) {
  const long taps = g.depth / g.in_channels;
  return {w + (taps - 1) * g.out_channels, 1, -g.out_channels, taps * g.out_channels};
}

void DirectConv::pack(const Sweep& of, const direct::Weights& w) {
  const Index lanes = of.kernels.lanes;
  std::ranges::fill(bias_.span(), 0.0F);
  share_out(of.g.padded_out / lanes, threads_, [&](Index first, Index last, int) {
    for (Index v = first; v < last; ++v) of.kernels.pack(of.g, w, v * lanes, packed_.span().data());
  });
}

void DirectConv::forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y) {
  allocate();
  const Sweep& whole = forward_.whole();
  pack(whole, weights_of(whole.g, w.data()));
  std::ranges::copy(b, bias_.span().begin());
  convolve(forward_, forward_rings_, input, y);
}

void DirectConv::backward_data(ConstTensor dy, ConstSpan w, Tensor dx) {
  allocate();
  const Sweep& whole = data_.whole();
  pack(whole, mirrored_weights_of(whole.g, w.data()));
  convolve(data_, data_rings_, {dy.data.data()}, dx);
}

void DirectConv::convolve_together(const Sweep& sweep, std::vector<BandRings>& rings, const PlaneInput& input,
                                   Tensor y) {
  const Index planes = y.shape.n * sweep.planes, most = sweep.g.together;
  const Index groups = std::min(planes, ((planes + most - 1) / most + threads_ - 1) / threads_ * threads_);
  const bool stream = streams(y);
  share_out(groups, threads_, [&](Index begin, Index end, int thread) {
    for (Index i = begin; i < end; ++i) {
      const Index first = planes * i / groups;
      direct::Geometry g = sweep.g;
      g.stream = stream, g.there = planes * (i + 1) / groups - first;
      const float* const* under = rings[static_cast<std::size_t>(thread)].front().together(sweep, g, input, first);
      sweep.kernels.forward(g, under, {packed_.span().data(), bias_.span().data()},
                            y.data.data() + first * sweep.output_plane);
    }
  });
}

// Planes of a band follow each other, because they share their input planes.
void DirectConv::convolve(const Bands& bands, std::vector<BandRings>& rings, const PlaneInput& input, Tensor y) {
  const Index planes = bands.whole().planes, count = bands.count();
  if (bands.whole().g.together > 1) return convolve_together(bands.whole(), rings, input, y);
  const bool stream = streams(y);
  for (BandRings& of_thread : rings)
    for (PlaneRing& ring : of_thread) ring.start();
  share_out(y.shape.n * count * planes, threads_, [&](Index first, Index last, int thread) {
    for (Index i = first; i < last; ++i) {
      const Index unit = i / planes, plane = i % planes;
      const Sweep& band = bands[unit % count];
      PlaneRing& ring = rings[static_cast<std::size_t>(thread)][bands.kind(unit % count)];
      direct::Geometry g = band.g;
      g.stream = stream;
      band.kernels.forward(g, ring.under(band, input, unit, count, plane), {packed_.span().data(), bias_.span().data()},
                           y.data.data() + (unit / count * planes + plane) * band.output_plane + band.output_row);
    }
  });
}

void DirectConv::add_weights(BandRings& rings, const PlaneInput& input, ConstTensor dy, const Part& part,
                             TapSums* taps) {
  const Index count = weights_.count(), planes = weights_.whole().planes;
  float* const gradient = gradients_[static_cast<std::size_t>(part.number)].span().data();
  for (Index band = 0; band < count; ++band) {
    const Sweep& sweep = weights_[band];
    PlaneRing& ring = rings[weights_.kind(band)];
    for_groups(part.first, part.last, sweep.g.together, [&](Index plane, Index there) {
      const float* from = dy.data.data() + plane * sweep.output_plane;
      direct::Geometry now = sweep.g;
      now.there = there;
      const float* const* under = sweep.g.together > 1
                                      ? ring.together(sweep, now, input, plane)
                                      : ring.under(sweep, input, plane / planes * count + band, count, plane % planes);
      sweep.kernels.weights(now, under, from + sweep.output_row, gradient);
      for (Index p = 0; taps != nullptr && band == 0 && p < there; ++p)
        taps->add_plane(part.number, plane + p, from + p * sweep.output_plane);
    });
  }
}

void DirectConv::backward_weights_of(const PlaneInput& input, ConstTensor dy, Span dw, Span db, TapSums* taps) {
  allocate();
  const Sweep& sweep = weights_.whole();
  const direct::Geometry& g = sweep.g;
  const std::size_t floats = gradients_[0].span().size();
  const Index planes = dy.shape.n * sweep.planes, parts = std::min(std::ssize(gradients_), planes);
  if (taps != nullptr) taps->start(parts);
  SharedLoop loop(parts, threads_);
#pragma omp parallel num_threads(threads_)
  {
    BandRings& rings =
        (shares_rings() ? forward_rings_ : weight_rings_)[static_cast<std::size_t>(omp_get_thread_num())];
    for (PlaneRing& ring : rings) ring.start();
    while (const auto part = loop.next(omp_get_thread_num())) {
      const Index number = part->first;
      std::ranges::fill(gradients_[static_cast<std::size_t>(number)].span(), 0.0F);
      add_weights(rings, input, dy, {number, planes * number / parts, planes * part->last / parts}, taps);
    }
#pragma omp barrier
    constexpr std::size_t block = 1024;  // floats
#pragma omp for schedule(static)
    for (std::size_t first = 0; first < floats; first += block)
      for (Index p = 1; p < parts; ++p) {  // always in their order
        const Span sum = gradients_[0].span(), more = gradients_[static_cast<std::size_t>(p)].span();
        for (std::size_t i = first; i < std::min(floats, first + block); ++i) sum[i] += more[i];
      }
#pragma omp for schedule(static)
    for (Index o = 0; o < g.out_channels; o += sweep.kernels.lanes)
      sweep.kernels.unpack(g, gradients_[0].span().data(), o, dw.data(), db.data());
  }
}

std::unique_ptr<DirectConv> DirectConv::make(DirectKernels kernels, const ConvGeometry& geometry) {
  const Kernels* found = find_kernels(kernels, geometry);
  if (found == nullptr || !supported(geometry, *found)) return nullptr;
  return std::make_unique<DirectConv>(*found, geometry, kernels.room);
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

std::unique_ptr<WeightedOp> make_direct_conv(DirectKernels kernels, const ConvGeometry& geometry) {
  return DirectConv::make(kernels, geometry);
}

std::unique_ptr<NormConvOp> make_direct_norm_conv(DirectKernels kernels, const NormSettings& settings,
                                                  const ConvGeometry& geometry) {
  auto conv = DirectConv::make(kernels, geometry);
  if (conv == nullptr) return nullptr;
  return std::make_unique<DirectNormConv>(settings, std::move(conv), geometry);
}

}  // namespace mrmf::cpu
