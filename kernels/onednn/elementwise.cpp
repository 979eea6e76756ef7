// Copies, activations and dropout.
#include <cstring>

#include "kernels/formulas.hpp"
#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/parallel.hpp"
#include "kernels/onednn/vectorise.hpp"

namespace mrmf::onednn {
namespace {

MRMF_VECTORISE void activate_range(ActivationKind kind, float slope, const float* x, float* y, Index count) {
  switch (kind) {
    case ActivationKind::relu:
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::relu, slope, x[i]);
      break;
    case ActivationKind::leaky_relu:
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::leaky_relu, slope, x[i]);
      break;
    case ActivationKind::tanh:
      for (Index i = 0; i < count; ++i) y[i] = activation(ActivationKind::tanh, slope, x[i]);
      break;
  }
}

MRMF_VECTORISE void activate_backward_range(ActivationKind kind, float slope, const float* y, const float* dy,
                                            float* dx, Index count) {
  switch (kind) {
    case ActivationKind::relu:
      for (Index i = 0; i < count; ++i) dx[i] = dy[i] * activation_derivative(ActivationKind::relu, slope, y[i]);
      break;
    case ActivationKind::leaky_relu:
      for (Index i = 0; i < count; ++i) dx[i] = dy[i] * activation_derivative(ActivationKind::leaky_relu, slope, y[i]);
      break;
    case ActivationKind::tanh:
      for (Index i = 0; i < count; ++i) dx[i] = dy[i] * activation_derivative(ActivationKind::tanh, slope, y[i]);
      break;
  }
}

/// How many philox blocks, of eight features each, are computed side by side.
constexpr Index dropout_blocks = 32;
constexpr Index dropout_features = 8 * dropout_blocks;

/// Applies the mask to features [first, first + count) of one row; count <= dropout_features, first a multiple of it.
MRMF_VECTORISE void dropout_range(const DropoutMask& mask, std::int64_t id, Index first, Index count, const float* x,
                                  float* y) {
  Random4 blocks[dropout_blocks];
  for (Index b = 0; b < dropout_blocks; ++b) blocks[b] = mask.block(id, first + 8 * b);
  const std::uint32_t threshold = mask.threshold;
  const float scale = mask.scale;
  std::uint16_t bits[dropout_features];
  std::memcpy(bits, blocks, sizeof bits);  // x86 is little-endian: the low half of a word is the even feature
  for (Index i = 0; i < count; ++i) y[i] = bits[i] >= threshold ? x[i] * scale : 0.0F;
}

}  // namespace

void copy(ConstSpan from, Span to) {
  for_ranges(std::ssize(from),
             [&](Index first, Index count) { std::copy_n(from.data() + first, count, to.data() + first); });
}

void swap(Span a, Span b) {
  for_ranges(std::ssize(a), [&](Index first, Index count) {
    std::swap_ranges(a.data() + first, a.data() + first + count, b.data() + first);
  });
}

void fill(Span x, float value) {
  for_ranges(std::ssize(x), [&](Index first, Index count) { std::fill_n(x.data() + first, count, value); });
}

void activate(ActivationKind kind, float slope, ConstSpan x, Span y) {
  for_ranges(std::ssize(x),
             [&](Index first, Index count) { activate_range(kind, slope, x.data() + first, y.data() + first, count); });
}

void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) {
  for_ranges(std::ssize(y), [&](Index first, Index count) {
    activate_backward_range(kind, slope, y.data() + first, dy.data() + first, dx.data() + first, count);
  });
}

void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) {
  if (!step.training) {
    if (x.data.data() != y.data.data()) copy(x.data, y.data);
    return;
  }
  MRMF_CHECK(std::ssize(step.ids) >= x.shape.n, "dropout needs the sample id of every row");
  const DropoutMask mask(step, layer, rate);
  const Index features = x.shape.per_sample();
#pragma omp parallel for schedule(static)
  for (Index row = 0; row < x.shape.n; ++row)
    for (Index first = 0; first < features; first += dropout_features) {
      const Index at = row * features + first;
      dropout_range(mask, step.ids[static_cast<std::size_t>(row)], first, std::min(dropout_features, features - first),
                    x.data.data() + at, y.data.data() + at);
    }
}

}  // namespace mrmf::onednn
