// Scalar formulas that all backends share, so that they agree to the last bit where they can.
#pragma once

#include <cmath>

#include "kernels/backend.hpp"
#include "kernels/random.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// A dropout layer's mask: whether dropout keeps a feature of a sample. One philox block serves eight features, 16 bits
/// each, so the drop probability is rate rounded to a multiple of 1/65536.
struct DropoutMask {
  std::uint64_t key;
  std::uint32_t step_low, threshold;
  float scale;

  DropoutMask(const Step& step, std::uint64_t layer, float rate)
      : DropoutMask(step.seed, step.number, layer, threshold_of(rate)) {}
  MRMF_HD DropoutMask(std::uint64_t seed, std::uint64_t number, std::uint64_t layer, std::uint32_t drop_below)
      : key(mix(seed, layer, number >> 32)),
        step_low(static_cast<std::uint32_t>(number)),
        threshold(drop_below),
        scale(1.0F / (1.0F - static_cast<float>(drop_below) / 65536.0F)) {}

  static std::uint32_t threshold_of(float rate) { return static_cast<std::uint32_t>(std::lround(rate * 65536.0F)); }

  MRMF_HD Random4 block(std::int64_t id, Index feature) const {
    const auto wide = static_cast<std::uint64_t>(id);
    return philox(key, {step_low, static_cast<std::uint32_t>(wide), static_cast<std::uint32_t>(wide >> 32),
                        static_cast<std::uint32_t>(feature / 8)});
  }
  MRMF_HD bool keeps(const Random4& block, Index feature) const {
    const std::uint32_t word = block[static_cast<std::size_t>((feature % 8) / 2)];
    return ((feature % 2 == 0) ? (word & 0xFFFFU) : (word >> 16)) >= threshold;
  }
};

/// NaN stays NaN (every comparison with it is false), so that a diverged network shows in its loss.
MRMF_HD inline float activation(ActivationKind kind, float slope, float x) {
  switch (kind) {
    case ActivationKind::relu: return x < 0 ? 0 : x;
    case ActivationKind::leaky_relu: return x > 0 ? x : slope * x;
    case ActivationKind::tanh: return slope * std::tanh(x);
  }
  return x;
}

/// dx of the activation from its output y (slope > 0 keeps the sign of the input). dy passes where y is NaN, as in
/// PyTorch.
MRMF_HD inline float activation_gradient(ActivationKind kind, float slope, float y, float dy) {
  switch (kind) {
    case ActivationKind::relu: return y <= 0 ? 0 : dy;
    case ActivationKind::leaky_relu: return y <= 0 ? slope * dy : dy;
    case ActivationKind::tanh: return dy * (slope - y * y / slope);
  }
  return dy;
}

/// Max pooling's rule: the first of equals wins, and NaN wins over everything, so that it is not lost.
MRMF_HD inline bool takes_maximum(float value, float best) { return (value > best) | (value != value); }

/// SGD with momentum as PyTorch defines it: v = momentum v + dw, w -= learning_rate v.
MRMF_HD inline void sgd_update(const SgdStep& s, float& w, float dw, float& velocity) {
  velocity = s.momentum * velocity + (dw + s.weight_decay * w);
  w -= s.learning_rate * velocity;
}

/// Adam (Kingma & Ba 2014, algorithm 1) and AdamW (Loshchilov & Hutter 2017), PyTorch's order of operations.
MRMF_HD inline void adam_update(const AdamStep& s, float& w, float dw, float& m, float& v) {
  const float g = dw + s.weight_decay * w;
  w -= s.learning_rate * s.decoupled_decay * w;
  m = s.beta1 * m + (1.0F - s.beta1) * g;
  v = s.beta2 * v + (1.0F - s.beta2) * g * g;
  w -= s.learning_rate / s.correction1 * m / (std::sqrt(v / s.correction2) + s.epsilon);
}

}  // namespace mrmf
