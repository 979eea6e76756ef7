// Max and average pooling, nearest and linear upsampling.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/backend.hpp"
#include "kernels/cpu/channel_and_sgd_loops.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/formulas.hpp"

namespace mrmf::cpu {

// Pooling with channels as the fast axis: each position of a window is a loop over channels.

namespace {

/// A window over channels-last input: its positions, as offsets from the first one.
struct Taps {
  const Index* offset;
  Index count, channels;
};

constexpr Index kChannelBlock = 64;  // channels processed together, in registers or the nearest cache

inline void max_of_eight(const Taps& taps, const float* x, float* y, std::uint8_t* winner) {
  EightFloats best = eight(x);
  EightInts position{};
  for (Index t = 1; t < taps.count; ++t) {
    const EightFloats in = eight(x + taps.offset[t]);
    const EightInts larger = (in > best) | (in != in);  // as takes_maximum()
    best = larger ? in : best;
    position = larger ? static_cast<std::int32_t>(t) - EightInts{} : position;
  }
  eight(y) = best;
  if (winner != nullptr) *reinterpret_cast<EightBytes*>(winner) = __builtin_convertvector(position, EightBytes);
}

inline void window_max(const Taps& taps, const float* x, float* y, std::uint8_t* winner) {
  for_channels(
      taps.channels, [&](Index c) { max_of_eight(taps, x + c, y + c, winner == nullptr ? nullptr : winner + c); },
      [&](Index c) {
        Index position = 0;
        for (Index t = 1; t < taps.count; ++t)
          if (takes_maximum(x[taps.offset[t] + c], x[taps.offset[position] + c])) position = t;
        y[c] = x[taps.offset[position] + c];
        if (winner != nullptr) winner[c] = static_cast<std::uint8_t>(position);
      });
}

inline void window_average(const Taps& taps, const float* x, float* y) {
  const float share = 1.0F / static_cast<float>(taps.count);
  for (Index first = 0; first < taps.channels; first += kChannelBlock) {
    const Index count = std::min(kChannelBlock, taps.channels - first);
    float sum[kChannelBlock] = {};
    for (Index t = 0; t < taps.count; ++t) {
      const float* in = x + taps.offset[t] + first;
      for (Index c = 0; c < count; ++c) sum[c] += in[c];
    }
    for (Index c = 0; c < count; ++c) y[first + c] = sum[c] * share;
  }
}

// Adds to dx, or writes where no other window does.
template <bool Alone>
inline void scatter_max(const Taps& taps, const float* __restrict dy, const std::uint8_t* __restrict winner,
                        float* __restrict dx) {
  for_channels(
      taps.channels,
      [&](Index c) {
        const EightFloats slope = eight(dy + c);
        const EightInts won = __builtin_convertvector(*reinterpret_cast<const EightBytes*>(winner + c), EightInts);
        for (Index t = 0; t < taps.count; ++t) {
          float* const to = dx + taps.offset[t] + c;
          const EightFloats part = won == static_cast<std::int32_t>(t) ? slope : EightFloats{};
          eight(to) = Alone ? part : eight(to) + part;
        }
      },
      [&](Index c) {
        for (Index t = 0; t < taps.count; ++t) {
          float& to = dx[taps.offset[t] + c];
          const float part = winner[c] == t ? dy[c] : 0.0F;
          to = Alone ? part : to + part;
        }
      });
}

inline void scatter_average(const Taps& taps, const float* __restrict dy, float* __restrict dx) {
  const float share = 1.0F / static_cast<float>(taps.count);
  for (Index t = 0; t < taps.count; ++t) {
    float* __restrict to = dx + taps.offset[t];
    for (Index c = 0; c < taps.channels; ++c) to[c] += dy[c] * share;
  }
}

class Pool final : public PoolOp {
 public:
  explicit Pool(const PoolGeometry& geometry) : g_(geometry), out_(geometry.out()) {
    MRMF_CHECK(g_.kind == PoolKind::average || product(g_.window) <= 256,
               "a max pooling window holds at most 256 positions: its winner is one byte");
    for (Index i = 0; i < g_.window[0]; ++i)
      for (Index j = 0; j < g_.window[1]; ++j)
        for (Index k = 0; k < g_.window[2]; ++k) offsets_.push_back(((i * g_.in[1] + j) * g_.in[2] + k) * g_.channels);
    slice_offsets_.resize(offsets_.size());
  }

  bool accepts_slices() const override { return true; }

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) override {
    const Index stride = x.stride();
    const Taps taps = stride == g_.channels ? this->taps() : taps_of_slice(stride);
    const Index lines = x.shape.n * out_[0] * out_[1];
    share_out(lines, omp_get_max_threads(), [&](Index first, Index last, int) {
      for (Index line = first; line < last; ++line)
        vectorised([&] {
          for (Index k = 0; k < out_[2]; ++k) {
            const Index to = (line * out_[2] + k) * g_.channels;
            const float* from = x.data.data() + (input_of(line) + k * g_.stride[2]) * stride;
            if (g_.kind == PoolKind::average)
              window_average(taps, from, y.data.data() + to);
            else
              window_max(taps, from, y.data.data() + to, winner.empty() ? nullptr : winner.data() + to);
          }
        });
    });
  }

  /// Windows may overlap, but only within a sample. Threads take slabs of samples that do not overlap.
  void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) override {
    const Taps taps = this->taps();
    const Index slabs = slabs_per_sample(), slab = product(g_.in) / slabs * g_.channels;
    const Index lines = out_[0] * out_[1] / slabs;
    const bool alone = g_.kind == PoolKind::max && tiles_input();
    share_out(dy.shape.n * slabs, omp_get_max_threads(), [&](Index first, Index last, int) {
      for (Index s = first; s < last; ++s)
        vectorised([&] {
          if (!alone) std::fill_n(dx.data.data() + s * slab, slab, 0.0F);
          for (Index line = s * lines; line < (s + 1) * lines; ++line)
            for (Index k = 0; k < out_[2]; ++k) {
              const Index from = (line * out_[2] + k) * g_.channels;
              float* to = dx.data.data() + (input_of(line) + k * g_.stride[2]) * g_.channels;
              if (g_.kind == PoolKind::average)
                scatter_average(taps, dy.data.data() + from, to);
              else if (alone)
                scatter_max<true>(taps, dy.data.data() + from, winner.data() + from, to);
              else
                scatter_max<false>(taps, dy.data.data() + from, winner.data() + from, to);
            }
        });
    });
  }

 private:
  Taps taps() const { return {offsets_.data(), std::ssize(offsets_), g_.channels}; }
  Taps taps_of_slice(Index stride) {
    for (std::size_t t = 0; t < offsets_.size(); ++t) slice_offsets_[t] = offsets_[t] / g_.channels * stride;
    return {slice_offsets_.data(), std::ssize(slice_offsets_), g_.channels};
  }

  /// The first input position of an output line, counted over all samples.
  Index input_of(Index line) const {
    const Index n = line / (out_[0] * out_[1]), i = line / out_[1] % out_[0], j = line % out_[1];
    return ((n * g_.in[0] + i * g_.stride[0]) * g_.in[1] + j * g_.stride[1]) * g_.in[2];
  }

  /// If windows tile a volume's first axis exactly, it consists of independent slabs.
  Index slabs_per_sample() const {
    const bool tiled = g_.window[0] == g_.stride[0] && out_[0] * g_.window[0] == g_.in[0];
    return tiled ? out_[0] : 1;
  }

  /// If every input position is in one window.
  bool tiles_input() const {
    for (std::size_t a = 0; a < 3; ++a)
      if (g_.window[a] != g_.stride[a] || out_[a] * g_.window[a] != g_.in[a]) return false;
    return true;
  }

  PoolGeometry g_;
  Extent out_;
  std::vector<Index> offsets_, slice_offsets_;  // offsets and slice offsets of a window's positions, in floats
};

/// The mean over all positions of a sample: of pieces, which threads share, and then of these in their order.
class GlobalAverage final : public PoolOp {
 public:
  GlobalAverage(const PoolGeometry& geometry, Index max_rows)
      : positions_(product(geometry.in)),
        channels_(geometry.channels),
        pieces_((positions_ + piece - 1) / piece),
        sums_(static_cast<std::size_t>(max_rows * pieces_ * channels_)) {}

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override {
    for_pieces(x.shape.n, [&](Index number, Index first, Index last) {
      add_up(x.data.data() + first * channels_, last - first, sums_.data() + number * channels_);
    });
    for (Index row = 0; row < x.shape.n; ++row)
      for (Index c = 0; c < channels_; ++c) {
        double sum = 0;
        for (Index p = row * pieces_; p < (row + 1) * pieces_; ++p) sum += sums_[p * channels_ + c];
        y.data[row * channels_ + c] = static_cast<float>(sum / static_cast<double>(positions_));
      }
  }

  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override {
    const float share = 1.0F / static_cast<float>(positions_);
    for_pieces(dy.shape.n, [&](Index number, Index first, Index last) {
      const float* const from = dy.data.data() + number / pieces_ * channels_;
      for (Index p = first; p < last; ++p)
        for (Index c = 0; c < channels_; ++c) dx.data[p * channels_ + c] = from[c] * share;
    });
  }

 private:
  static constexpr Index piece = 256;  // positions

  void add_up(const float* x, Index count, double* sums) const {
    std::fill_n(sums, channels_, 0.0);
    vectorised([&] {
      for (Index p = 0; p < count; ++p, x += channels_)
        for (Index c = 0; c < channels_; ++c) sums[c] += double{x[c]};
    });
  }
  /// body(number, first, last): positions [first, last) of one sample, all counted over all samples.
  template <class Body>
  void for_pieces(Index rows, const Body& body) const {
    share_out(rows * pieces_, omp_get_max_threads(), [&](Index i, Index end, int) {
      for (; i < end; ++i) {
        const Index row = i / pieces_, first = i % pieces_ * piece;
        body(i, row * positions_ + first, row * positions_ + std::min(positions_, first + piece));
      }
    });
  }

  Index positions_, channels_, pieces_;
  std::vector<double> sums_;  // per piece and channel
};

}  // namespace

std::unique_ptr<PoolOp> CpuBackend::pool(const PoolGeometry& geometry, Index max_rows) {
  if (is_global_average(geometry)) return std::make_unique<GlobalAverage>(geometry, max_rows);
  return std::make_unique<Pool>(geometry);
}

// Upsampling, a line of positions at a time. Backward gathers as forward does, so threads share the lines of dx.

namespace {

/// A position along one axis of the tensor that is read, and its weight.
struct Source {
  Index position;
  float weight;
};
using Sources = std::vector<std::vector<Source>>;  // for each position of the tensor that is written

Sources forward_sources(const UpsampleGeometry& g, std::size_t axis) {
  Sources sources;
  for (Index block = 0; block < g.in[axis]; ++block)
    for (Index offset = 0; offset < g.factor[axis]; ++offset) {
      const Between b(g.kind, block, offset, g.factor[axis], g.in[axis]);
      sources.push_back({{b.low, 1 - b.weight}});
      if (b.weight > 0) sources.back().push_back({b.high, b.weight});
    }
  return sources;
}

Sources backward_sources(const UpsampleGeometry& g, std::size_t axis) {
  Sources sources(static_cast<std::size_t>(g.in[axis]));
  for (Index position = 0; position < g.in[axis]; ++position)
    for_each_reader(g.kind, position, g.factor[axis], g.in[axis], [&](Index out, float weight) {
      sources[static_cast<std::size_t>(position)].push_back({out, weight});
    });
  return sources;
}

/// y += weight * x
inline void add(Index count, float weight, const float* __restrict x, float* __restrict y) {
  for (Index i = 0; i < count; ++i) y[i] += weight * x[i];
}

/// One direction: weighted sums along each axis.
struct Gather {
  std::array<Sources, 3> sources;
  Extent from, to;  ///< sizes of what is read and of what is written
  Index channels;

  void operator()(ConstTensor x, Tensor y) const {
    const Index lines = to[0] * to[1];
    const Strides strides{x.stride(), y.stride()};
#pragma omp parallel for schedule(static)
    for (Index line = 0; line < x.shape.n * lines; ++line)
      vectorised([&] {
        const float* const sample = x.data.data() + line / lines * product(from) * strides.x;
        float* const written = y.data.data() + line * to[2] * strides.y;
        for (Index k = 0; k < to[2]; ++k) std::fill_n(written + k * strides.y, channels, 0.0F);
        for (const Source& a : sources[0][static_cast<std::size_t>(line % lines / to[1])])
          for (const Source& b : sources[1][static_cast<std::size_t>(line % to[1])])
            add_line(a.weight * b.weight, strides, sample + (a.position * from[1] + b.position) * from[2] * strides.x,
                     written);
      });
  }

 private:
  /// Floats from a position to the next.
  struct Strides {
    Index x, y;
  };
  void add_line(float weight, const Strides& strides, const float* x, float* y) const {
    for (const std::vector<Source>& of_position : sources[2]) {
      for (const Source& source : of_position)
        add(channels, weight * source.weight, x + source.position * strides.x, y);
      y += strides.y;
    }
  }
};

class Upsample final : public PoolOp {
 public:
  explicit Upsample(const UpsampleGeometry& g)
      : forward_{{forward_sources(g, 0), forward_sources(g, 1), forward_sources(g, 2)}, g.in, g.out(), g.channels},
        backward_{{backward_sources(g, 0), backward_sources(g, 1), backward_sources(g, 2)}, g.out(), g.in, g.channels} {
  }

  bool accepts_slices() const override { return true; }
  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override { forward_(x, y); }
  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override { backward_(dy, dx); }

 private:
  Gather forward_, backward_;
};

}  // namespace

std::unique_ptr<PoolOp> CpuBackend::upsample(const UpsampleGeometry& geometry, Index) {
  return std::make_unique<Upsample>(geometry);
}

}  // namespace mrmf::cpu
