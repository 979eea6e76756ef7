// Convolutions whose output has few positions in a sample, such as a network's last ones. Most taps of their kernels
// lie on padding, or meet a few inputs alone, so that reading the weights takes the time. oneDNN brings all weights
// into its own form first; here they are read once, where they lie, and only those of taps that meet the input.
#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/cpu/instruction_set.hpp"

namespace mrmf::cpu {
namespace {

inline float dot(const float* a, const float* b, Index count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

inline void add_scaled(float factor, const float* x, float* y, Index count) {
#pragma omp simd
  for (Index i = 0; i < count; ++i) y[i] += factor * x[i];
}

class FewPositions final : public WeightedOp {
 public:
  explicit FewPositions(const ConvGeometry& g)
      : taps_(taps_of(g)),
        in_(g.in_channels),
        out_(g.out_channels),
        in_positions_(product(g.in)),
        out_positions_(product(g.out())),
        all_taps_(product(g.kernel)) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    const Index rows = x.shape.n;
#pragma omp parallel for schedule(static)
    for (Index o = 0; o < out_; ++o)
      vectorised([&] {
        const float bias = b.empty() ? 0.0F : b[static_cast<std::size_t>(o)];
        for (Index p = 0; p < rows * out_positions_; ++p) y.data[static_cast<std::size_t>(p * out_ + o)] = bias;
        for (const Tap& tap : taps_) {
          const float* const weights = w.data() + (o * all_taps_ + tap.number) * in_;
          for (const TapPair& m : tap.pairs)
            for (Index n = 0; n < rows; ++n)
              y.data[static_cast<std::size_t>((n * out_positions_ + m.out) * out_ + o)] +=
                  dot(x.data.data() + (n * in_positions_ + m.in) * in_, weights, in_);
        }
      });
  }

  // Threads share the input's channels, so that none adds to what another one writes.
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    const Index rows = dy.shape.n;
    constexpr Index piece = 64;
#pragma omp parallel for schedule(static)
    for (Index first = 0; first < in_; first += piece)
      vectorised([&] {
        const Index count = std::min(piece, in_ - first);
        for (Index p = 0; p < rows * in_positions_; ++p) std::fill_n(dx.data.data() + p * in_ + first, count, 0.0F);
        for (Index o = 0; o < out_; ++o)
          for (const Tap& tap : taps_) {
            const float* const weights = w.data() + (o * all_taps_ + tap.number) * in_ + first;
            for (const TapPair& m : tap.pairs)
              for (Index n = 0; n < rows; ++n)
                add_scaled(dy.data[static_cast<std::size_t>((n * out_positions_ + m.out) * out_ + o)], weights,
                           dx.data.data() + (n * in_positions_ + m.in) * in_ + first, count);
          }
      });
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    const Index rows = x.shape.n;
#pragma omp parallel for schedule(static)
    for (Index o = 0; o < out_; ++o)
      vectorised([&] {
        if (!db.empty()) {
          float bias = 0;
          for (Index p = 0; p < rows * out_positions_; ++p) bias += dy.data[static_cast<std::size_t>(p * out_ + o)];
          db[static_cast<std::size_t>(o)] = bias;
        }
        for (const Tap& tap : taps_) {
          float* const gradient = dw.data() + (o * all_taps_ + tap.number) * in_;
          std::fill_n(gradient, in_, 0.0F);
          for (const TapPair& m : tap.pairs)
            for (Index n = 0; n < rows; ++n)
              add_scaled(dy.data[static_cast<std::size_t>((n * out_positions_ + m.out) * out_ + o)],
                         x.data.data() + (n * in_positions_ + m.in) * in_, gradient, in_);
        }
      });
  }

 private:
  std::vector<Tap> taps_;  // in their order
  Index in_, out_, in_positions_, out_positions_, all_taps_;
};

}  // namespace

std::unique_ptr<WeightedOp> make_few_positions(const ConvGeometry& geometry, Index max_rows) {
  constexpr Index few = 16;  // positions of all rows: with more, oneDNN uses packed weights often enough
  if (product(geometry.out()) * max_rows > few) return nullptr;
  return std::make_unique<FewPositions>(geometry);
}

std::vector<Tap> taps_of(const ConvGeometry& g) {
  const Extent out = g.out();
  std::vector<Tap> taps;
  const auto number = [](const Extent& of, const Extent& at) { return (at[0] * of[1] + at[1]) * of[2] + at[2]; };
  const auto for_each = [](const Extent& of, const auto& visit) {
    for (Index i = 0; i < of[0]; ++i)
      for (Index j = 0; j < of[1]; ++j)
        for (Index k = 0; k < of[2]; ++k) visit(Extent{i, j, k});
  };
  for_each(g.kernel, [&](const Extent& tap) {
    Tap made{number(g.kernel, tap), {}};
    for_each(out, [&](const Extent& position) {
      Extent in{};
      bool inside = true;
      for (std::size_t a = 0; a < 3; ++a) {
        in[a] = position[a] * g.stride[a] - g.pad_before[a] + tap[a] * g.dilation[a];
        inside = inside && in[a] >= 0 && in[a] < g.in[a];
      }
      if (inside) made.pairs.push_back({number(out, position), number(g.in, in)});
    });
    taps.push_back(std::move(made));
  });
  return taps;
}

}  // namespace mrmf::cpu
