// What the passes of a batch norm share.
#pragma once

#include "kernels/cuda/norm.hpp"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/windows.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {

/// What comes behind the normalisation: an activation by its slope below zero, and windows that are averaged.
template <class Pooling>
struct Behind {
  static constexpr bool single = Pooling::side == 1;  // no pooling
  Pooling windows;
  float slope, share;

  Behind(const Pooling& pooling, float negative_slope)
      : windows(pooling), slope(negative_slope), share(1.0F / static_cast<float>(windows.taps())) {}

  // ReLU is taken as the leaky one of slope 0: a kind that the compiler knows leaves no branches between the loads.
  MRMF_HD float activate(float x) const { return activation(ActivationKind::leaky_relu, slope, x); }
  MRMF_HD float gradient(float x, float dy) const {
    return activation_gradient(ActivationKind::leaky_relu, slope, x, dy);
  }
};

/// Calls use(behind) with the type that fits; windows of one position stand for no pooling.
template <class Use>
void with_behind(const NormReluPool& settings, Use use) {
  const PoolGeometry none{PoolKind::average, settings.norm.channels, settings.in, {1, 1, 1}, {1, 1, 1}};
  with_windows(settings.pool.value_or(none), [&](const auto& windows) { use(Behind(windows, settings.slope)); });
}

/// The normalisation of one vector's channels: (x - mean) * factor + beta.
template <int W>
struct Affine {
  float mean[W], factor[W], beta[W];

  MRMF_HD float operator()(int i, float x) const { return (x - mean[i]) * factor[i] + beta[i]; }
};

/// Where a norm's parameters are.
struct NormParameters {
  const float *gamma, *beta, *mean;
  const float* spread;  // inverse deviation, or the variance
  bool is_variance;
  float epsilon;
  std::uint32_t channels;

  NormParameters(const NormSettings& settings, const NormMemory& memory, bool training)
      : gamma(memory.gamma.data()),
        beta(memory.beta.data()),
        mean(training ? memory.mean.data() : memory.running_mean.data()),
        spread(training ? memory.inverse_deviation.data() : memory.running_variance.data()),
        is_variance(!training),
        epsilon(settings.epsilon),
        channels(count32(settings.channels)) {}

  /// Pad channels get the factor 0.
  template <int W>
  MRMF_HD Affine<W> read(std::uint32_t vector) const {
    Affine<W> a;
    float inverse[W];
    load_parameters(mean, vector, channels, a.mean);
    load_parameters(beta, vector, channels, a.beta);
    load_parameters(gamma, vector, channels, a.factor);
    load_parameters(spread, vector, channels, inverse);
    for (int i = 0; i < W; ++i) {
      if (is_variance) inverse[i] = 1.0F / std::sqrt(inverse[i] + epsilon);
      a.factor[i] *= inverse[i];
    }
    return a;
  }
};

/// The parts of a norm's scratch: two sums per channel and the number of positions (what ranks add), and the partial
/// sums of blocks.
struct NormScratch {
  double* sums;
  double* partials;

  static Index sum_count(const NormReluPool& settings) { return 2 * settings.norm.channels + 1; }
  NormScratch(const NormReluPool& settings, void* scratch)
      : sums(static_cast<double*>(scratch)), partials(sums + sum_count(settings)) {}
};

inline Index norm_positions(const NormReluPool& settings, Index n) { return n * product(settings.in); }
inline Index norm_windows(const NormReluPool& settings, Index n) {
  return n * (settings.pool ? product(settings.pool->out()) : product(settings.in));
}

}  // namespace mrmf::cuda
