// Formulas of losses that all backends share.
#pragma once

#include <cmath>
#include <iterator>

#include "kernels/check.hpp"
#include "kernels/operations.hpp"

namespace mrmf {

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

}  // namespace mrmf
