// Scalar formulas that all backends share: activations, losses, optimizer updates, the windows of local contrast
// normalisation.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "kernels/operations.hpp"
#include "kernels/random.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Scalar formulas that all backends share, losses among them, so that they agree to the last bit where they can.

/// A dropout layer's mask: whether dropout keeps a feature of a sample. One philox block serves eight features, 16 bits
/// each, so the drop probability is rate rounded to a multiple of 1/65536.
struct DropoutMask {
  std::uint64_t key;
  std::uint32_t step_low, threshold;
  float scale;

  DropoutMask(const StepContext& step, std::uint64_t layer, float rate)
      : DropoutMask(step.seed, step.updates_done, layer, threshold_of(rate)) {}
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

/// 1 / (1 + e^-x)
MRMF_HD inline float logistic(float x) { return 1 / (1 + std::exp(-x)); }

/// The share of a standard normal distribution below x: gelu(x) = x * normal_share(x), PyTorch's exact form.
MRMF_HD inline float normal_share(float x) { return 0.5F * std::erfc(-0.70710678F * x); }

/// NaN stays NaN (every comparison with it is false), so that a diverged network shows in its loss.
MRMF_HD inline float activation(ActivationKind kind, float slope, float x) {
  switch (kind) {
    case ActivationKind::relu: return x < 0 ? 0 : x;
    case ActivationKind::leaky_relu: return x > 0 ? x : slope * x;
    case ActivationKind::tanh: return slope * std::tanh(x);
    case ActivationKind::gelu: return x * normal_share(x);
    case ActivationKind::silu: return x * logistic(x);
    case ActivationKind::softplus: return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
    case ActivationKind::sigmoid: return logistic(x);
    case ActivationKind::square: return slope * x * x;
    case ActivationKind::root: return std::sqrt(slope + x);
  }
  return x;
}

/// dx of the activation from what gradient_reads_input() says: its output y (slope > 0 keeps the sign of the input) or,
/// of gelu, silu and square, its input. dy passes where a ReLU's y is NaN, as in PyTorch.
MRMF_HD inline float activation_gradient(ActivationKind kind, float slope, float y, float dy) {
  constexpr float peak = 0.39894228F;  // the normal density at 0: 1 / sqrt(2 pi)
  switch (kind) {
    case ActivationKind::relu: return y <= 0 ? 0 : dy;
    case ActivationKind::leaky_relu: return y <= 0 ? slope * dy : dy;
    case ActivationKind::tanh: return dy * (slope - y * y / slope);
    case ActivationKind::gelu: return dy * (normal_share(y) + y * peak * std::exp(-0.5F * y * y));
    case ActivationKind::silu: return dy * (logistic(y) * (1 + y * (1 - logistic(y))));
    case ActivationKind::softplus: return dy * -std::expm1(-y);
    case ActivationKind::sigmoid: return dy * (y * (1 - y));
    case ActivationKind::square: return dy * (2 * slope * y);
    case ActivationKind::root: return dy / (2 * y);
  }
  return dy;
}

/// dx += factor * the gradient of sqrt(epsilon + squares) of one group of settings.pooled values.
MRMF_HD inline void add_sparsity_of_group(const SparsitySettings& settings, float factor, const float* x, float* dx) {
  float squares = 0;
  for (Index i = 0; i < settings.pooled; ++i) squares += x[i] * x[i];
  const float share = factor / std::sqrt(settings.epsilon + squares);
  for (Index i = 0; i < settings.pooled; ++i) dx[i] += share * x[i];
}

/// Max pooling's rule: the first of equals wins, and NaN wins over everything, so that it is not lost.
MRMF_HD inline bool takes_maximum(float value, float best) { return (value > best) | (value != value); }

/// The two input positions along an axis that an output position of an upsampling lies between, and the second's
/// weight; the first has the rest. The output position is block * factor + offset.
struct Between {
  Index low, high;
  float weight = 0;

  MRMF_HD Between(UpsampleKind kind, Index block, Index offset, Index factor, Index in) : low(block), high(block) {
    if (kind == UpsampleKind::nearest) return;
    // The centre lies (2 * offset + 1 - factor) / (2 * factor) input positions behind that of the block's own.
    const Index behind = 2 * offset + 1 - factor;
    if (behind < 0 ? block == 0 : block + 1 == in) return;  // there is no neighbour
    if (behind < 0)
      --low;
    else
      ++high;
    weight = static_cast<float>(behind < 0 ? behind + 2 * factor : behind) / static_cast<float>(2 * factor);
  }
};

/// use(output position, weight) for every output position that reads an input position: see Between.
template <class Use>
MRMF_HD void for_each_reader(UpsampleKind kind, Index position, Index factor, Index in, const Use& use) {
  const Index around = kind == UpsampleKind::linear ? 1 : 0;
  for (Index block = position - around; block <= position + around; ++block) {
    if (block < 0 || block >= in) continue;
    for (Index offset = 0; offset < factor; ++offset) {
      const Between b(kind, block, offset, factor, in);
      const float weight = (b.low == position ? 1 - b.weight : 0) + (b.high == position ? b.weight : 0);
      if (weight > 0) use(block * factor + offset, weight);
    }
  }
}

/// What values are multiplied by so that their norm, the root of `squares`, is at most `most`. Values of a norm that is
/// not finite stay as they are: nothing would make them shorter, and the loss will show them.
MRMF_HD inline float clip_factor(double squares, float most) {
  const double norm = std::sqrt(squares);
  return norm > most && norm - norm == 0 ? static_cast<float>(most / norm) : 1.0F;
}

/// SGD with momentum as PyTorch defines it: v = momentum v + dw, w -= learning_rate v.
MRMF_HD inline void sgd_update(const SgdStep& s, float& w, float dw, float& velocity) {
  velocity = s.momentum * velocity + (dw + s.weight_decay * w);
  w -= s.learning_rate * velocity;
}

/// SGD's step without momentum.
MRMF_HD inline void sgd_update(const SgdStep& s, float& w, float dw) {
  w -= s.learning_rate * (dw + s.weight_decay * w);
}

/// Adam (Kingma & Ba 2014, algorithm 1) and AdamW (Loshchilov & Hutter 2017), PyTorch's order of operations.
MRMF_HD inline void adam_update(const AdamStep& s, float& w, float dw, float& m, float& v) {
  const float g = dw + s.weight_decay * w;
  w -= s.learning_rate * s.decoupled_decay * w;
  m = s.beta1 * m + (1.0F - s.beta1) * g;
  v = s.beta2 * v + (1.0F - s.beta2) * g * g;
  w -= s.learning_rate / s.correction1 * m / (std::sqrt(v / s.correction2) + s.epsilon);
}

/// The direction of a step of Lion (Chen et al. 2023), of which the sign counts; the momentum moves on behind it.
MRMF_HD inline float lion_direction(const LionStep& s, float dw, float& m) {
  const float g = s.gain * dw;
  const float direction = s.beta1 * m + (1.0F - s.beta1) * g;
  m = s.beta2 * m + (1.0F - s.beta2) * g;
  return direction;
}

/// The weight decays, and moves against the direction by the learning rate; by nothing where that is 0.
MRMF_HD inline void lion_move(const LionStep& s, float& w, float direction) {
  w *= 1.0F - s.learning_rate * s.decoupled_decay;
  const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : direction;
  w -= s.learning_rate * sign;
}

MRMF_HD inline void lion_update(const LionStep& s, float& w, float dw, float& m) {
  lion_move(s, w, lion_direction(s, dw, m));
}

// Formulas of losses that all backends share.

/// Checks what the caller of Backend::loss must have seen to.
inline void check_loss(const LossSettings& settings, const Shape& output, Index target_channels) {
  const bool numbers = settings.task() == Task::classes && target_channels == 1 && output.channels > 1;
  MRMF_CHECK(numbers || target_channels == output.channels, "labels and outputs of a loss have other channels");
  MRMF_CHECK(settings.class_weights.empty() || std::ssize(settings.class_weights) == output.channels,
             "a loss has a weight for each of its classes, or none");
}

/// A sum of losses of numbers.
struct ErrorLoss {
  float mse = 1, mae = 0, huber = 0, delta = 1;

  static ErrorLoss of(const LossSettings& settings) {
    return {settings.weight(LossKind::mse), settings.weight(LossKind::mae), settings.weight(LossKind::huber),
            settings.delta};
  }
  template <class Real>
  MRMF_HD Real value(Real error) const {
    Real sum = 0;
    if (mse != 0) sum += mse * (error * error);
    if (mae != 0) sum += mae * std::abs(error);
    if (huber != 0) {
      const Real size = std::abs(error), most = delta;
      sum += huber * (size <= most ? Real(0.5) * error * error : most * (size - Real(0.5) * most));
    }
    return sum;
  }
  /// The derivative; NaN stays NaN.
  template <class Real>
  MRMF_HD Real slope(Real error) const {
    const Real sign = error > 0 ? Real(1) : error < 0 ? Real(-1) : error == 0 ? Real(0) : error;
    Real sum = 0;
    if (mse != 0) sum += mse * (2 * error);
    if (mae != 0) sum += mae * sign;
    if (huber != 0) sum += huber * (std::abs(error) <= Real(delta) ? error : Real(delta) * sign);
    return sum;
  }
};

/// -t log(p) - (1 - t) log(1 - p) with p = sigmoid(y), without overflow.
template <class Real>
MRMF_HD Real binary_cross_entropy(Real y, Real t) {
  return (y > 0 ? y : y < 0 ? Real(0) : y) - y * t + std::log1p(std::exp(-std::abs(y)));
}

template <class Real>
MRMF_HD Real sigmoid(Real y) {
  if (y >= 0) return 1 / (1 + std::exp(-y));
  const Real e = std::exp(y);  // NaN stays NaN
  return e / (1 + e);
}

/// The focal form of a cross-entropy: - (1 - p)^gamma log(p), with p the probability of what is right.
struct Focal {
  float gamma = 0;

  MRMF_HD bool plain() const { return gamma == 0; }
  /// The factor of - log(p).
  template <class Real>
  MRMF_HD Real factor(Real p) const {
    return gamma == 0 ? Real(1) : p < 1 ? std::pow(1 - p, Real(gamma)) : Real(0);
  }
  /// p times the derivative by p; -1 where gamma is 0.
  template <class Real>
  MRMF_HD Real slope(Real p) const {
    if (gamma == 0 || !(p > 0)) return Real(-1);
    if (!(p < 1)) return Real(0);
    return factor(p) * (Real(gamma) * p * std::log(p) / (1 - p) - 1);
  }
};

/// The target of one position: the number of its class, or the share of each.
struct ClassTarget {
  const float* at;
  Index channels;

  /// The number of the class where there is one class alone; negative: ignored. Only with one channel.
  MRMF_HD Index number() const { return static_cast<Index>(*at); }
  MRMF_HD float share(Index c) const { return channels > 1 ? at[c] : *at == static_cast<float>(c) ? 1.0F : 0.0F; }
  /// The share of the position that is not ignored.
  MRMF_HD float counted() const {
    if (channels == 1) return *at < 0 ? 0.0F : 1.0F;
    float sum = 0;
    for (Index c = 0; c < channels; ++c) sum += at[c];
    return sum;
  }
};

/// The overlap of a class within a sample: (2 both + smooth) / (predicted + labelled + smooth), of sums over positions
/// of probability * label, of probabilities, and of labels; and its derivative by the probability of a position, which
/// is by_label * label + by_counted (where the position counts).
struct Overlap {
  double value, by_label, by_counted;

  MRMF_HD static Overlap of(double both, double predicted_and_labelled, double smooth) {
    const double below = predicted_and_labelled + smooth, above = 2 * both + smooth;
    return {above / below, 2 / below, -above / (below * below)};
  }
};

// Windows of local contrast normalisation, for every processor: their weights, and weighted sums of one number per
// position. A window has less to sum at the sample's border; what is left of its weights is then brought to 1.

/// Positions [first, end) along each axis, of those that x has.
struct PositionBox {
  std::int32_t first[3], end[3];

  explicit PositionBox(const Box& box) : first{}, end{} {
    for (std::size_t a = 0; a < 3; ++a)
      first[a] = static_cast<std::int32_t>(box.first[a]), end[a] = static_cast<std::int32_t>(box.end(a));
  }
  MRMF_HD std::int32_t count() const { return (end[0] - first[0]) * (end[1] - first[1]) * (end[2] - first[2]); }
};

/// A position among those of x.
struct Position {
  std::int32_t axis[3];
};

class ContrastWindow {
 public:
  explicit ContrastWindow(const ContrastGeometry& g)
      : all(Box{.count = g.in}), middle(g.middle()), out(g.out), weight_{}, half_{}, in_{}, first_{}, sample_{} {
    for (std::size_t a = 0; a < 3; ++a) {
      half_[a] = static_cast<std::int32_t>(g.window[a] / 2);
      in_[a] = static_cast<std::int32_t>(g.in[a]);
      first_[a] = static_cast<std::int32_t>(g.first[a]), sample_[a] = static_cast<std::int32_t>(g.sample[a]);
      double sum = 0;
      for (std::int32_t t = 0; t <= half_[a]; ++t) sum += (t == 0 ? 1 : 2) * g.weight(a, t);
      for (std::int32_t t = 0; t <= half_[a]; ++t) weight_[a][t] = static_cast<float>(g.weight(a, t) / sum);
    }
  }

  /// Position number i of a box, last axis fastest.
  MRMF_HD static Position position(const PositionBox& box, std::int32_t i) {
    Position p{};
    for (int a = 2; a >= 0; --a) {
      const std::int32_t sizes = box.end[a] - box.first[a];
      p.axis[a] = box.first[a] + i % sizes;
      i /= sizes;
    }
    return p;
  }
  /// Its number among those of x.
  MRMF_HD std::int32_t number(const Position& p) const { return (p.axis[0] * in_[1] + p.axis[1]) * in_[2] + p.axis[2]; }
  /// The number of a position of y among those of y.
  MRMF_HD std::int32_t number_in_out(const Position& p) const {
    std::int32_t number = 0;
    for (int a = 0; a < 3; ++a) number = number * (out.end[a] - out.first[a]) + p.axis[a] - out.first[a];
    return number;
  }
  MRMF_HD static bool has(const PositionBox& box, const Position& p) {
    for (int a = 0; a < 3; ++a)
      if (p.axis[a] < box.first[a] || p.axis[a] >= box.end[a]) return false;
    return true;
  }

  /// The sum of `field`, a number for each position of x, over the window around p: of the positions in `box` alone.
  MRMF_HD float sum(const float* field, const PositionBox& box, const Position& p) const {
    std::int32_t begin[3], end[3];
    for (int a = 0; a < 3; ++a) {
      begin[a] = p.axis[a] - half_[a] > box.first[a] ? p.axis[a] - half_[a] : box.first[a];
      end[a] = p.axis[a] + half_[a] + 1 < box.end[a] ? p.axis[a] + half_[a] + 1 : box.end[a];
    }
    float total = 0;
    for (std::int32_t i = begin[0]; i < end[0]; ++i)
      for (std::int32_t j = begin[1]; j < end[1]; ++j) {
        const float* const line = field + (static_cast<std::size_t>(i) * in_[1] + j) * in_[2];
        float part = 0;
        for (std::int32_t k = begin[2]; k < end[2]; ++k) part += at(2, k - p.axis[2]) * line[k];
        total += at(0, i - p.axis[0]) * at(1, j - p.axis[1]) * part;
      }
    return total;
  }
  /// What brings the weights of the window around p that are inside of the sample to the sum 1.
  MRMF_HD float share(const Position& p) const {
    float inside = 1;
    for (int a = 0; a < 3; ++a) {
      const std::int32_t here = first_[a] + p.axis[a];
      if (here >= half_[a] && here + half_[a] < sample_[a]) continue;
      float sum = 0;
      for (std::int32_t t = -half_[a]; t <= half_[a]; ++t)
        if (here + t >= 0 && here + t < sample_[a]) sum += at(a, t);
      inside *= sum;
    }
    return 1 / inside;
  }

  PositionBox all, middle, out;  ///< positions of x, those whose means are needed, and those of y

 private:
  MRMF_HD float at(int axis, std::int32_t distance) const { return weight_[axis][distance < 0 ? -distance : distance]; }

  float weight_[3][kMostContrastWindow / 2 + 1];  // by distance
  std::int32_t half_[3], in_[3], first_[3], sample_[3];
};

/// What is kept for every position of x, and scratch: arrays of as many floats as there are positions in all rows.
struct ContrastFields {
  float *mean, *deviation;        ///< from forward to backward; of the window's values, and of what is left of them
  float *first, *second, *third;  ///< scratch

  ContrastFields(Span kept, Index count)
      : mean(kept.data()),
        deviation(mean + count),
        first(deviation + count),
        second(first + count),
        third(second + count) {
    MRMF_CHECK(std::ssize(kept) >= kContrastFields * count, "no room for what local contrast normalisation keeps");
  }
};

}  // namespace mrmf
