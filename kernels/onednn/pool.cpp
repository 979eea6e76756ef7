// Pooling with channels as the fast axis: each position of a window is a loop over channels.
#include <algorithm>
#include <vector>

#include "kernels/formulas.hpp"
#include "kernels/onednn/backend.hpp"
#include "kernels/onednn/instruction_set.hpp"

namespace mrmf::onednn {
namespace {

/// A window over channels-last input: its positions, as offsets from the first one.
struct Taps {
  const Index* offset;
  Index count, channels;
};

constexpr Index lanes = 64;  // channels processed together, in registers or the nearest cache

inline void window_max(const Taps& taps, const float* x, float* y, std::uint8_t* winner) {
  for (Index first = 0; first < taps.channels; first += lanes) {
    const Index count = std::min(lanes, taps.channels - first);
    float best[lanes];
    std::int32_t position[lanes];
    for (Index c = 0; c < count; ++c) best[c] = x[first + c], position[c] = 0;
    for (Index t = 1; t < taps.count; ++t) {
      const float* in = x + taps.offset[t] + first;
      for (Index c = 0; c < count; ++c) {
        const bool larger = takes_maximum(in[c], best[c]);
        best[c] = larger ? in[c] : best[c];
        position[c] = larger ? static_cast<std::int32_t>(t) : position[c];
      }
    }
    for (Index c = 0; c < count; ++c) y[first + c] = best[c];
    if (winner != nullptr)
      for (Index c = 0; c < count; ++c) winner[first + c] = static_cast<std::uint8_t>(position[c]);
  }
}

inline void window_average(const Taps& taps, const float* x, float* y) {
  const float share = 1.0F / static_cast<float>(taps.count);
  for (Index first = 0; first < taps.channels; first += lanes) {
    const Index count = std::min(lanes, taps.channels - first);
    float sum[lanes] = {};
    for (Index t = 0; t < taps.count; ++t) {
      const float* in = x + taps.offset[t] + first;
      for (Index c = 0; c < count; ++c) sum[c] += in[c];
    }
    for (Index c = 0; c < count; ++c) y[first + c] = sum[c] * share;
  }
}

inline void scatter_max(const Taps& taps, const float* __restrict dy, const std::uint8_t* __restrict winner,
                        float* __restrict dx) {
  for (Index t = 0; t < taps.count; ++t) {
    float* __restrict to = dx + taps.offset[t];
    for (Index c = 0; c < taps.channels; ++c) to[c] += winner[c] == t ? dy[c] : 0.0F;
  }
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
  }

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) override {
    const Taps taps = this->taps();
    const Index lines = x.shape.n * out_[0] * out_[1];
#pragma omp parallel for schedule(static)
    for (Index line = 0; line < lines; ++line)
      vectorised([&] {
        for (Index k = 0; k < out_[2]; ++k) {
          const Index to = (line * out_[2] + k) * g_.channels;
          const float* from = x.data.data() + input_of(line) + k * g_.stride[2] * g_.channels;
          if (g_.kind == PoolKind::average)
            window_average(taps, from, y.data.data() + to);
          else
            window_max(taps, from, y.data.data() + to, winner.empty() ? nullptr : winner.data() + to);
        }
      });
  }

  /// Windows may overlap, but only within a sample. Threads take slabs of samples that do not overlap.
  void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) override {
    const Taps taps = this->taps();
    const Index slabs = slabs_per_sample(), slab = product(g_.in) / slabs * g_.channels;
    const Index lines = out_[0] * out_[1] / slabs;
#pragma omp parallel for schedule(static)
    for (Index s = 0; s < dy.shape.n * slabs; ++s)
      vectorised([&] {
        std::fill_n(dx.data.data() + s * slab, slab, 0.0F);
        for (Index line = s * lines; line < (s + 1) * lines; ++line)
          for (Index k = 0; k < out_[2]; ++k) {
            const Index from = (line * out_[2] + k) * g_.channels;
            float* to = dx.data.data() + input_of(line) + k * g_.stride[2] * g_.channels;
            if (g_.kind == PoolKind::average)
              scatter_average(taps, dy.data.data() + from, to);
            else
              scatter_max(taps, dy.data.data() + from, winner.data() + from, to);
          }
      });
  }

 private:
  Taps taps() const { return {offsets_.data(), std::ssize(offsets_), g_.channels}; }

  /// Offset of the first input position of an output line, counted over all samples.
  Index input_of(Index line) const {
    const Index n = line / (out_[0] * out_[1]), i = line / out_[1] % out_[0], j = line % out_[1];
    return ((n * g_.in[0] + i * g_.stride[0]) * g_.in[1] + j * g_.stride[1]) * g_.in[2] * g_.channels;
  }

  /// If windows tile a volume's first axis exactly, it consists of independent slabs.
  Index slabs_per_sample() const {
    const bool tiled = g_.window[0] == g_.stride[0] && out_[0] * g_.window[0] == g_.in[0];
    return tiled ? out_[0] : 1;
  }

  PoolGeometry g_;
  Extent out_;
  std::vector<Index> offsets_;
};

}  // namespace

std::unique_ptr<PoolOp> OnednnBackend::pool(const PoolGeometry& geometry, Index) {
  return std::make_unique<Pool>(geometry);
}

}  // namespace mrmf::onednn
