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
#include "kernels/errors.hpp"

namespace mrmf::cpu {
namespace {

/// Calls body(first, count) for [first, last) in equal groups of at most `most`.
template <class Body>
void for_groups(Index first, Index last, Index most, const Body& body) {
  const Index groups = (last - first + most - 1) / most;
  for (Index i = 0; i < groups; ++i) {
    const Index begin = first + (last - first) * i / groups, end = first + (last - first) * (i + 1) / groups;
    body(begin, end - begin);
  }
}

/// Planes of dy under a band of rows, from this one on, counted over all samples.
struct GradientPlanes {
  const Sweep& whole;
  const Sweep& band;
  Index first;
};

/// Convolutions on the direct kernels: splits the planes of all samples over threads. Weights in the kernels' form and
/// gradients of parts lie in the workspace, too.
class DirectConv final : public PlanewiseConv {
 public:
  /// Null where these kernels do not serve.
  static std::unique_ptr<DirectConv> make(DirectKernels kernels, const ConvGeometry& geometry, SharedWorkspace memory);

  DirectConv(const direct::Kernels& kernels, const ConvGeometry& geometry, Index room, SharedWorkspace memory);

  /// Takes the memory of all passes. The constructor takes none: a plan makes many networks and trains none.
  void prepare(Index) override { reserve(0); }
  void prepare_making(Index, const PlanewiseConv* data) override {
    reserve(makes_apart() ? weights_.whole().g.together : 0);
    if (const auto* of = dynamic_cast<const DirectConv*>(data); of != nullptr && in_one_loop(*of)) reserve_for(*of);
  }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    forward_of({x.data.data()}, w, b, y, nullptr);
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override;
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    backward_weights_of({x.data.data()}, {dy.shape, dy.data.data()}, dw, db, {});
  }
  void forward_adding(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, NormSums& moments) override {
    forward_of({x.data.data()}, w, b, y, &moments);
  }
  void backward_weights_making(ConstTensor x, const MadeGradient& dy, Span dw, Span db) override {
    backward_weights_of({x.data.data()}, {dy.shape, nullptr, &dy}, dw, db, {});
  }
  bool backward_making(const Gradients& call, const MadeGradient& dy, PlanewiseConv& data) override;

  struct Gradient {  ///< dy where it is stored, or what makes it
    Shape shape;
    const float* stored = nullptr;
    const MadeGradient* made = nullptr;
  };
  /// Forward of x, or of a map's output on it, which is never stored. moments: null unless they are wanted.
  void forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y, NormSums* moments);
  /// What goes with the weight gradient, plane by plane while dy is in the cache.
  struct Along {
    TapSums* taps = nullptr;     ///< gets sums of dy
    DirectConv* data = nullptr;  ///< makes dx
    Tensor dx{};
  };
  /// The weight gradient of the same.
  void backward_weights_of(const PlaneInput& input, const Gradient& dy, Span dw, Span db, const Along& along);

 private:
  /// Memory for all passes, and for so many planes of output behind each thread's rings of the weight gradient.
  void reserve(Index planes) {
    const Index made = weights_.rings.floats() + planes * whole_lines(weights_.whole().output_plane);
    memory_->reserve(std::max(bias_at_ + bias_floats(), parts_ * gradient_floats_),
                     std::max({forward_.rings.floats(), data_.rings.floats(), made}));
  }
  /// Whether both gradients can be made in one loop, that of x by the kernels of `data`.
  bool in_one_loop(const DirectConv& data) const;
  /// Memory for that: packed weights lie behind the gradients of parts.
  void reserve_for(const DirectConv& data) {
    const Index planes = weights_.whole().g.together * whole_lines(weights_.whole().output_plane);
    memory_->reserve(parts_ * gradient_floats_ + data.bias_at_ + data.bias_floats(),
                     weights_.rings.floats() + data.data_.rings.floats() + planes);
  }
  Index bias_floats() const { return std::max(forward_.whole().g.padded_out, data_.whole().g.padded_out); }
  /// at: where packed weights begin in the memory of all threads.
  direct::PackedWeights packed(const Pass& pass, std::size_t lattice, Index at = 0) const {
    return {memory_->common() + at + pass.packed_at[lattice], memory_->common() + at + bias_at_};
  }
  Span gradient(Index part) const {
    return {memory_->common() + part * gradient_floats_, static_cast<std::size_t>(gradient_floats_)};
  }
  void pack(const Pass& pass, direct::Weights w, ConstSpan b, Index at = 0);  // w without its taps; no b: zeros
  void pack_for_data(ConstSpan w, Index at = 0) {
    pack(data_, {w.data(), 1, nullptr, forward_.whole().g.depth}, {}, at);
  }
  void convolve(Pass& pass, const PlaneInput& input, Tensor y, NormSums* moments);
  void convolve_together(Pass& pass, const PlaneInput& input, Tensor y, NormSums* moments);
  template <class Body>
  void share_planes(Index count, NormSums* moments, const Body& body);
  /// Planes of dy, counted over all samples, whose gradient is summed alone.
  struct Part {
    Index number, first, last;
  };
  /// Whether a dy that is made, and not wanted later, has memory of its own while the caches hold it: what takes the
  /// place of z must be written to memory.
  bool makes_apart() const { return weights_.whole().output_plane * weights_.whole().g.together * 4 <= room_; }
  const float* gradient_at(const Gradient& dy, const GradientPlanes& planes, Index rows, float* own) const;
  void add_weights(int thread, const PlaneInput& input, const Gradient& dy, const Part& part, const Along& along);
  /// dx of some planes of dy, which are the planes [first, first + count) of all samples.
  struct DataPlanes {
    const float* dy;
    Index first, count;
    Index packed_at;
  };
  void make_data(int thread, const DataPlanes& planes, Tensor dx);

  int threads_;
  SharedWorkspace memory_;
  Index room_;  // of a thread's caches: bytes
  Pass forward_, data_, weights_;
  Index bias_at_;                  // where the bias lies behind the packed weights
  Index gradient_floats_, parts_;  // of a part of the planes, weights and bias
};

DirectConv::DirectConv(const Kernels& kernels, const ConvGeometry& geometry, Index room, SharedWorkspace memory)
    : threads_(memory->threads()),
      memory_(std::move(memory)),
      room_(room > 0 ? room : cache_room()),
      forward_(kernels, cpu::forward_of(geometry), room, false, threads_),
      data_(kernels, data_gradient_of(geometry), room, false, threads_),
      weights_(kernels, cpu::forward_of(geometry), room, true, threads_),
      bias_at_(std::max(forward_.packed, data_.packed)),
      gradient_floats_(whole_lines(forward_.whole().sizes.gradient)),
      parts_(sum_parts(threads_, gradient_floats_)) {}

void DirectConv::pack(const Pass& pass, direct::Weights w, ConstSpan b, Index at) {
  const Sweep& whole = pass.whole();
  float *const packed = memory_->common() + at, *const bias = packed + bias_at_;
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

void DirectConv::forward_of(const PlaneInput& input, ConstSpan w, ConstSpan b, Tensor y, NormSums* moments) {
  prepare(y.shape.n);
  pack(forward_, {w.data(), forward_.whole().g.depth, nullptr, 1}, b);
  convolve(forward_, input, y, moments);
}

void DirectConv::backward_data(ConstTensor dy, ConstSpan w, Tensor dx) {
  prepare(dx.shape.n);
  pack_for_data(w);
  convolve(data_, {dy.data.data()}, dx, nullptr);
}

/// Calls body(first, last, thread, part) on runs of planes. Where moments are wanted these are the parts of their sums;
/// else the part says nothing.
template <class Body>
void DirectConv::share_planes(Index count, NormSums* moments, const Body& body) {
  if (moments == nullptr)
    return share_out(count, threads_, [&](Index first, Index last, int thread) { body(first, last, thread, 0); });
  const Index parts = moments->start_moments(count);
  share_out(parts, threads_, [&](Index part, Index end, int thread) {
    for (; part < end; ++part) body(count * part / parts, count * (part + 1) / parts, thread, part);
  });
}

/// A plane of outputs, or of those that are taken together, or a band of one: one call of the kernels.
struct OutputRows {
  const Kernels& kernels;
  const direct::Geometry& g;
  float* const* planes;
  direct::PackedWeights w;
  float* y;
};

/// Makes them, and adds their positions to a part of the moments: by the kernels as they store them, or else while they
/// are in the caches. The first of a part give what the kernels count from.
void make_outputs(const OutputRows& rows, NormSums* moments, Index part) {
  direct::Geometry g = rows.g;
  const Index positions = g.there * g.rows * g.width;
  const auto to = moments != nullptr && rows.kernels.adds_moments ? moments->moments_of(part, positions) : std::nullopt;
  const bool read_again = moments != nullptr && !to;
  if (to) g.moments = &*to;
  if (read_again) g.stream = false;
  rows.kernels.forward(g, rows.planes, rows.w, rows.y);
  if (read_again) moments->add_rows(part, rows.y, positions);
}

void DirectConv::convolve_together(Pass& pass, const PlaneInput& input, Tensor y, NormSums* moments) {
  const Sweep& sweep = pass.whole();
  const Index planes = y.shape.n * sweep.planes, most = sweep.g.together;
  MRMF_CHECK(pass.shape.all_meet_taps(), "planes with strides are not taken together");
  const Index groups = std::min(planes, ((planes + most - 1) / most + threads_ - 1) / threads_ * threads_);
  const bool stream = streams(y);
  share_planes(groups, moments, [&](Index begin, Index end, int thread, Index part) {
    PlaneRing& ring = pass.rings.of(thread, *memory_).front();
    for (Index i = begin; i < end; ++i) {
      const Index first = planes * i / groups;
      direct::Geometry g = sweep.parts.front().g;
      g.stream = stream, g.there = planes * (i + 1) / groups - first;
      make_outputs({sweep.kernels, g, ring.together(sweep, g, input, first), packed(pass, 0),
                    y.data.data() + first * sweep.output_plane},
                   moments, part);
    }
  });
}

// Planes of a band follow each other, because they share their input planes.
void DirectConv::convolve(Pass& pass, const PlaneInput& input, Tensor y, NormSums* moments) {
  const Bands& bands = pass.bands;
  const Index planes = bands.whole().planes, count = bands.count();
  pass.rings.start();
  if (bands.whole().g.together > 1) return convolve_together(pass, input, y, moments);
  const bool clears = !pass.shape.all_meet_taps(), stream = !clears && streams(y);  // zeros are in the caches
  share_planes(y.shape.n * count * planes, moments, [&](Index first, Index last, int thread, Index number) {
    std::vector<PlaneRing>& rings = pass.rings.of(thread, *memory_);
    for (Index i = first; i < last; ++i) {
      const Index unit = i / planes, plane = i % planes;
      const Sweep& band = bands[unit % count];
      float* const* under = rings[bands.kind(unit % count)].under(band, input, unit, count, plane);
      float* const sample = y.data.data() + unit / count * band.output_sample;
      float* const to = sample + plane * band.output_plane + band.output_row;
      if (clears) pass.clear(unit % count, plane, sample);
      for (std::size_t p = 0; p < band.parts.size(); ++p) {
        const Sweep::Part& part = band.parts[p];
        if (plane >= part.planes || part.g.rows == 0) continue;
        direct::Geometry g = part.g;
        g.stream = stream;
        make_outputs({band.kernels, g, under + part.first_plane, packed(pass, p), to + part.at}, moments, number);
      }
    }
  });
}

/// dy's first row of the band. Where dy is not stored, so many rows are made from there on; 0: they were before.
const float* DirectConv::gradient_at(const Gradient& dy, const GradientPlanes& planes, Index rows, float* own) const {
  const Index line = planes.whole.g.y_row, row = planes.band.output_row / line;
  if (dy.made == nullptr) return dy.stored + planes.first * planes.whole.output_plane + planes.band.output_row;
  const Index first = planes.first * planes.whole.g.rows + row;
  float* const to = dy.made->wanted || !makes_apart() ? dy.made->place + first * line : own + row * line;
  if (rows > 0) dy.made->lines(first, first + rows, to);
  return to;
}

void DirectConv::add_weights(int thread, const PlaneInput& input, const Gradient& dy, const Part& part,
                             const Along& along) {
  const Index count = weights_.bands.count(), planes = weights_.whole().planes;
  TapSums* const taps = along.taps;
  for (Index band = 0; band < count; ++band) {
    const Sweep& sweep = weights_.bands[band];
    PlaneRing& ring = weights_.rings.of(thread, *memory_)[weights_.bands.kind(band)];
    const bool with_taps = taps != nullptr && band == 0;  // which want whole planes, and leave those that have a place
    const bool left = taps != nullptr && band > 0 && !makes_apart();
    const Index rows = with_taps ? weights_.whole().g.rows : left ? 0 : sweep.g.rows;
    for_groups(part.first, part.last, sweep.g.together, [&](Index plane, Index there) {
      direct::Geometry now = sweep.g;
      now.there = there;
      const float* const from =
          gradient_at(dy, {weights_.whole(), sweep, plane}, there * rows, weights_.rings.behind(thread));
      float* const* under = sweep.g.together > 1
                                ? ring.together(sweep, now, input, plane)
                                : ring.under(sweep, input, plane / planes * count + band, count, plane % planes);
      sweep.kernels.weights(now, under, from, gradient(part.number).data());
      for (Index p = 0; with_taps && p < there; ++p)
        taps->add_plane(part.number, plane + p, from + p * sweep.output_plane);
      if (along.data != nullptr)
        along.data->make_data(thread, {from, plane, there, parts_ * gradient_floats_}, along.dx);
    });
  }
}

void DirectConv::make_data(int thread, const DataPlanes& planes, Tensor dx) {
  const Sweep& sweep = data_.whole();
  PlaneRing& ring = data_.rings.of(thread, *memory_).front();
  const bool stream = streams(dx);
  for_groups(0, planes.count, sweep.g.together, [&](Index first, Index there) {
    direct::Geometry now = sweep.g;
    now.there = there;
    float* const* copies = ring.together(sweep, now, {planes.dy + first * sweep.input_plane}, 0);
    float* const to = dx.data.data() + (planes.first + first) * sweep.output_plane;
    for (std::size_t p = 0; p < sweep.parts.size(); ++p) {
      direct::Geometry g = sweep.parts[p].g;
      g.there = there, g.stream = stream;
      sweep.kernels.forward(g, copies, packed(data_, p, planes.packed_at), to + sweep.parts[p].at);
    }
  });
}

/// Each plane of dx must come from one of dy, in no more than one band. The caches must hold that of dy, and what the
/// loop goes over for every plane: weights, and their gradient.
bool DirectConv::in_one_loop(const DirectConv& data) const {
  const Sweep &weights = weights_.whole(), &of_data = data.data_.whole();
  return memory_ == data.memory_ && weights_.bands.count() == 1 && data.data_.bands.count() == 1 &&
         weights.planes_alone() && of_data.planes_alone() && data.data_.shape.all_meet_taps() && makes_apart() &&
         (data.data_.packed + gradient_floats_) * 4 <= room_ / 2;
}

bool DirectConv::backward_making(const Gradients& call, const MadeGradient& dy, PlanewiseConv& data) {
  auto* const of = dynamic_cast<DirectConv*>(&data);
  if (of == nullptr || !in_one_loop(*of)) return false;
  prepare_making(call.x.shape.n, of);
  of->pack_for_data(call.w, parts_ * gradient_floats_);
  MadeGradient apart = dy;
  apart.wanted = false;  // by nobody behind the loop
  backward_weights_of({call.x.data.data()}, {dy.shape, nullptr, &apart}, call.dw, call.db, {nullptr, of, call.dx});
  return true;
}

void DirectConv::backward_weights_of(const PlaneInput& input, const Gradient& dy, Span dw, Span db,
                                     const Along& along) {
  if (dy.made != nullptr)
    prepare_making(dy.shape.n, along.data);
  else
    prepare(dy.shape.n);
  const Sweep& sweep = weights_.whole();
  const Index planes = dy.shape.n * sweep.planes, parts = std::min(parts_, planes);
  if (along.taps != nullptr) along.taps->start(parts);
  const Index lanes = sweep.kernels.lanes;
  constexpr Index block = 128;  // floats
  SharedLoop loop(parts, threads_), sums((gradient_floats_ + block - 1) / block, threads_),
      vectors(sweep.g.padded_out / lanes, threads_);
  weights_.rings.start(along.data != nullptr ? &along.data->data_.rings : nullptr);
#pragma omp parallel num_threads(threads_)
  {
    const int thread = omp_get_thread_num();
    loop.work(thread, [&](Index number, Index next) {
      std::ranges::fill(gradient(number), 0.0F);
      add_weights(thread, input, dy, {number, planes * number / parts, planes * next / parts}, along);
    });
#pragma omp barrier
    sums.work(thread, [&](Index first, Index last) {
      for (Index p = 1; p < parts; ++p) {  // always in their order
        float *const sum = gradient(0).data(), *const more = gradient(p).data();
        for (Index i = first * block; i < std::min(last * block, gradient_floats_); ++i) sum[i] += more[i];
      }
    });
#pragma omp barrier
    vectors.work(thread, [&](Index first, Index last) {
      for (Index o = first * lanes; o < last * lanes; o += lanes)
        sweep.kernels.unpack(sweep.g, gradient(0).data(), o, dw.data(), db.data());
    });
  }
}

std::unique_ptr<DirectConv> DirectConv::make(DirectKernels kernels, const ConvGeometry& geometry,
                                             SharedWorkspace memory) {
  const Kernels* found = find_kernels(kernels, geometry);
  if (found == nullptr) return nullptr;
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
class DirectNormConv final : public PlanewiseNormConv {
 public:
  DirectNormConv(const NormSettings& settings, std::unique_ptr<DirectConv> conv, const ConvGeometry& geometry)
      : norm_(settings),
        conv_(std::move(conv)),
        geometry_(geometry),
        taps_(geometry),
        map_(geometry.in[2], geometry.in_channels) {}

  bool keeps_normalised() const override { return false; }
  void prepare(Index rows) override { conv_->prepare(rows); }
  void prepare_making(Index rows) override { conv_->prepare_making(rows, nullptr); }
  void forward(const StepContext& step, const Forward& f) override { forward_of(step, f, nullptr); }
  void forward_adding(const StepContext& step, const Forward& f, NormSums& moments) override {
    forward_of(step, f, &moments);
  }
  void forward_of(const StepContext& step, const Forward& f, NormSums* moments) {
    if (step.training) norm_.update_statistics(step, f.x.data, f.memory);
    const norm_loops::Terms terms = norm_.terms(step, f.memory);
    const direct::Affine map = map_(terms.mean, terms.factor, terms.beta);
    conv_->forward_of({f.x.data.data(), &map}, f.w, f.b, f.y, moments);
  }

  void backward(const Backward& b) override { backward_of(b, {b.dy.shape, b.dy.data.data()}); }
  void backward_making(const Backward& b, const MadeGradient& dy) override { backward_of(b, {dy.shape, nullptr, &dy}); }

 private:
  void backward_of(const Backward& b, const DirectConv::Gradient& dy) {
    const direct::Affine map = map_(b.memory.mean.data(), b.memory.inverse_deviation.data(), nullptr);
    conv_->backward_weights_of({b.x.data.data(), &map}, dy, b.dw, b.db, {&taps_});
    norm_conv_gradients(b, geometry_, taps_.total());
  }

  NormSums norm_;
  std::unique_ptr<DirectConv> conv_;
  ConvGeometry geometry_;
  TapSums taps_;
  RowMap map_;
};

}  // namespace

std::unique_ptr<PlanewiseConv> make_direct_conv(DirectKernels kernels, const ConvGeometry& geometry,
                                                SharedWorkspace memory) {
  return DirectConv::make(kernels, geometry, std::move(memory));
}

std::unique_ptr<PlanewiseNormConv> make_direct_norm_conv(DirectKernels kernels, const NormSettings& settings,
                                                         const ConvGeometry& geometry, SharedWorkspace memory) {
  auto conv = DirectConv::make(kernels, geometry, std::move(memory));
  if (conv == nullptr) return nullptr;
  return std::make_unique<DirectNormConv>(settings, std::move(conv), geometry);
}

}  // namespace mrmf::cpu
