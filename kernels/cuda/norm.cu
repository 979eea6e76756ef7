// Batch norm of stored activations, forward and backward, with the activation and the pooling behind it.
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/windows.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

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

Index norm_positions(const NormReluPool& settings, Index n) { return n * product(settings.in); }
Index norm_windows(const NormReluPool& settings, Index n) {
  return n * (settings.pool ? product(settings.pool->out()) : product(settings.in));
}

/// What a channel's statistics become.
struct StatisticsTarget {
  float *running_mean, *running_variance, *mean, *inverse_deviation;
  double momentum, epsilon;

  StatisticsTarget(const NormSettings& settings, const NormMemory& memory)
      : running_mean(memory.running_mean.data()),
        running_variance(memory.running_variance.data()),
        mean(memory.mean.data()),
        inverse_deviation(memory.inverse_deviation.data()),
        momentum(settings.momentum),
        epsilon(settings.epsilon) {}

  MRMF_HD void write(Index c, double average, double rounded_variance, double count) const {
    const double variance = rounded_variance < 0 ? 0 : rounded_variance;
    mean[c] = static_cast<float>(average);
    inverse_deviation[c] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
    const double unbiased = variance * (count / (count > 2 ? count - 1 : 1.0));
    running_mean[c] = static_cast<float>(running_mean[c] + momentum * (average - running_mean[c]));
    running_variance[c] = static_cast<float>(running_variance[c] + momentum * (unbiased - running_variance[c]));
  }
};

/// Reads x; sums of distances from a value of the channel, and of their squares.
template <class T>
struct Statistics {
  static constexpr int unroll = 4;
  const T* x;
  std::size_t vectors, rows, channels;
  StatisticsTarget target;
  double* global;  // null: these statistics are final; else where the ranks' sums begin

  /// The median of three rows' values, so that an outlier among them does no harm.
  MRMF_HD float origin(std::size_t c) const {
    if (rows == 0) return 0;
    const std::size_t stride = vectors * width<T>;
    const float a = to_float(x[c]), b = to_float(x[rows / 2 * stride + c]), d = to_float(x[(rows - 1) * stride + c]);
    const float low = a < b ? a : b, high = a < b ? b : a;
    return d < low ? low : d > high ? high : d;
  }

  MRMF_HD auto at(std::uint32_t vector) const {
    struct Body {
      const T* x;
      std::size_t vectors, vector;
      float origin[width<T>];

      MRMF_HD void operator()(std::uint32_t row, float (&sums)[2][width<T>]) const {
        float value[width<T>];
        load_constant(x, row * vectors + vector, value);
        for (int i = 0; i < width<T>; ++i) {
          const float distance = value[i] - origin[i];
          sums[0][i] += distance;
          sums[1][i] += distance * distance;
        }
      }
    };
    Body body{x, vectors, vector, {}};
    for (int i = 0; i < width<T>; ++i) body.origin[i] = origin(std::size_t{vector} * width<T> + i);
    return body;
  }

  /// Ranks add plain sums: in double these lose nothing that float32 data had.
  MRMF_HD void finish(Index c, const double (&totals)[2]) const {
    const auto count = static_cast<double>(rows);
    const double first = origin(static_cast<std::size_t>(c));
    if (global == nullptr) {
      const double shift = totals[0] / count;
      target.write(c, first + shift, totals[1] / count - shift * shift, count);
      return;
    }
    global[c] = totals[0] + count * first;
    global[static_cast<Index>(channels) + c] = totals[1] + 2 * first * totals[0] + count * first * first;
    if (c == 0) global[2 * channels] = count;
  }
};

/// Statistics from the sums over all ranks.
struct GlobalStatistics {
  const double* sums;
  std::uint32_t channels;
  StatisticsTarget target;

  MRMF_HD void operator()(std::uint32_t c) const {
    const double count = sums[2 * channels], average = sums[c] / count;
    target.write(c, average, sums[channels + c] / count - average * average, count);
  }
};

/// Per element of y: reads its window of x, writes y.
template <class T, class Behind>
struct Apply {
  Behind behind;
  NormParameters parameters;
  std::size_t vectors;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector, affine = parameters.template read<width<T>>(vector)](std::uint32_t row) {
      constexpr int w = width<T>;
      float sum[w] = {};
      f.behind.windows.for_each_tap(row, [&](std::uint32_t, std::uint32_t from) {
        float value[w];
        load_constant(f.x, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) sum[i] += f.behind.activate(affine(i, value[i]));
      });
      for (int i = 0; i < w; ++i) sum[i] *= f.behind.share;
      store(sum, f.y, row * f.vectors + vector);
    };
  }
};

template <class T>
void write_statistics(const NormWork& norm, Index n, const void* x, const NormMemory& memory) {
  const NormScratch scratch(norm.settings, norm.scratch);
  const NormSettings& settings = norm.settings.norm;
  const Reduction r{norm_positions(norm.settings, n), norm.work.storage.vectors(settings.channels), settings.channels,
                    scratch.partials};
  const StatisticsTarget target(settings, memory);
  const auto count = [](Index i) { return static_cast<std::size_t>(i); };
  reduce<2, width<T>>(norm.work.stream, r,
                      Statistics<T>{elements<T>(x), count(r.vectors), count(r.rows), count(r.channels), target,
                                    norm.ranks == nullptr ? nullptr : scratch.sums});
  if (norm.ranks == nullptr) return;
  norm.ranks->sum({scratch.sums, count(NormScratch::sum_count(norm.settings))});
  for_each(norm.work.stream, r.channels, GlobalStatistics{scratch.sums, count32(r.channels), target});
}

}  // namespace

NormReluPool plain_norm(const NormSettings& settings, Index positions) {
  return {.norm = settings, .in = {1, 1, positions}, .axes = 1, .slope = 1, .pool = std::nullopt};
}

std::size_t norm_scratch_bytes(const Storage& storage, const NormReluPool& settings, Index n) {
  const Index channels = settings.norm.channels;
  const Reduction r{norm_positions(settings, n), storage.vectors(channels), channels, nullptr};
  return static_cast<std::size_t>(NormScratch::sum_count(settings) + r.partial_doubles(2)) * sizeof(double);
}

void norm_forward(const NormWork& norm, bool training, Index n, const void* x, const NormMemory& memory, void* y) {
  const Storage& storage = norm.work.storage;
  const Index vectors = storage.vectors(norm.settings.norm.channels);
  with_element(storage, [&]<class T>(T) {
    if (training) write_statistics<T>(norm, n, x, memory);
    with_behind(norm.settings, [&]<class B>(const B& behind) {
      for_each_row(norm.work.stream, norm_windows(norm.settings, n), vectors,
                   Apply<T, B>{behind, NormParameters(norm.settings.norm, memory, training),
                               static_cast<std::size_t>(vectors), elements<T>(x), elements<T>(y)});
    });
  });
}

namespace {

/// Per element of dy: reads it and its window of x. Sums of the gradient g at the norm's output, and of g (x - mean).
template <class T, class Behind>
struct GradientSums {
  static constexpr int unroll = Behind::single ? 4 : 1;
  Behind behind;
  NormParameters parameters;
  std::size_t vectors;
  const T* x;
  const T* dy;
  float *dgamma, *dbeta;
  double* sums;
  double positions;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector, affine = parameters.template read<width<T>>(vector)](std::uint32_t row,
                                                                                    float(&to)[2][width<T>]) {
      constexpr int w = width<T>;
      float arriving[w];
      load_constant(f.dy, row * f.vectors + vector, arriving);
      for (int i = 0; i < w; ++i) arriving[i] *= f.behind.share;
      f.behind.windows.for_each_tap(row, [&](std::uint32_t, std::uint32_t from) {
        float value[w];
        load_constant(f.x, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) {
          const float g = f.behind.gradient(affine(i, value[i]), arriving[i]);
          to[0][i] += g;
          to[1][i] += g * (value[i] - affine.mean[i]);
        }
      });
    };
  }
  MRMF_HD void finish(Index c, const double (&totals)[2]) const {
    const double normalised = totals[1] * parameters.spread[c];
    dbeta[c] = static_cast<float>(totals[0]);
    dgamma[c] = static_cast<float>(normalised);
    sums[c] = totals[0];
    sums[parameters.channels + c] = normalised;
    if (c == 0) sums[2 * Index{parameters.channels}] = positions;
  }
};

/// Per element of dy: reads it and the positions of x that are its own, writes dx there:
/// dx = factor (g - mean of g - normalised x * mean of (g normalised x)) = factor g - offset - (x - mean) tilt.
template <class T, class Behind>
struct DataGradient {
  Behind behind;
  NormParameters parameters;
  std::size_t vectors;
  const T* x;
  const T* dy;
  T* dx;
  const double* sums;

  struct Body {
    DataGradient f;
    std::uint32_t vector;
    Affine<width<T>> affine;
    float offset[width<T>], tilt[width<T>];

    MRMF_HD void operator()(std::uint32_t row) const {
      constexpr int w = width<T>;
      float arriving[w];
      load_constant(f.dy, row * f.vectors + vector, arriving);
      for (int i = 0; i < w; ++i) arriving[i] *= f.behind.share;
      f.behind.windows.for_each_owned(row, [&](std::uint32_t tap, std::uint32_t at) {
        float value[w];
        load_constant(f.x, at * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) {
          const float passed = f.behind.gradient(affine(i, value[i]), arriving[i]);
          const float g = tap == outside ? 0 : passed;
          value[i] = affine.factor[i] * g - offset[i] - (value[i] - affine.mean[i]) * tilt[i];
        }
        store(value, f.dx, at * f.vectors + vector);
      });
    }
  };

  MRMF_HD Body at(std::uint32_t vector) const {
    constexpr int w = width<T>;
    Body body{*this, vector, parameters.template read<w>(vector), {}, {}};
    const double per_position = 1.0 / sums[2 * Index{parameters.channels}];
    for (int i = 0; i < w; ++i) {
      const std::uint32_t c = vector * w + static_cast<std::uint32_t>(i);
      if (c >= parameters.channels) continue;
      const double factor = body.affine.factor[i] * per_position;
      body.offset[i] = static_cast<float>(factor * sums[c]);
      body.tilt[i] = static_cast<float>(factor * parameters.spread[c] * sums[parameters.channels + c]);
    }
    return body;
  }
};

}  // namespace

void norm_backward(const NormWork& norm, Index n, const NormBackward& data, const NormMemory& memory) {
  const NormScratch scratch(norm.settings, norm.scratch);
  const NormSettings& settings = norm.settings.norm;
  const NormParameters parameters(settings, memory, true);
  const Reduction r{norm_windows(norm.settings, n), norm.work.storage.vectors(settings.channels), settings.channels,
                    scratch.partials};
  const auto vectors = static_cast<std::size_t>(r.vectors);
  const auto positions = static_cast<double>(norm_positions(norm.settings, n));
  const auto run = [&]<class T, class B>(T, const B& behind) {
    const auto *x = elements<T>(data.x), *dy = elements<T>(data.dy);
    reduce<2, width<T>>(
        norm.work.stream, r,
        GradientSums<T, B>{behind, parameters, vectors, x, dy, data.dgamma, data.dbeta, scratch.sums, positions});
    if (norm.ranks != nullptr)
      norm.ranks->sum({scratch.sums, static_cast<std::size_t>(NormScratch::sum_count(norm.settings))});
    if (data.dx != nullptr)
      for_each_row(norm.work.stream, r.rows, r.vectors,
                   DataGradient<T, B>{behind, parameters, vectors, x, dy, elements<T>(data.dx), scratch.sums});
  };
  with_element(norm.work.storage,
               [&](auto element) { with_behind(norm.settings, [&](const auto& behind) { run(element, behind); }); });
}

}  // namespace mrmf::cuda
