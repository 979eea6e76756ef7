// The statistics of a batch norm: mean and deviation of each channel, of all positions or of those that count, and of
// all ranks; and the normalisation by them. Forward and backward (batch_norm_local_contrast_norm.cu) share its scratch.
#pragma once

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {

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

/// What a channel's statistics become.
struct StatisticsTarget {
  float *running_mean, *running_variance, *mean, *inverse_deviation;
  const float* bias;  // null: x is complete
  double momentum, epsilon;

  StatisticsTarget(const NormSettings& settings, const NormMemory& memory)
      : running_mean(memory.running_mean.data()),
        running_variance(memory.running_variance.data()),
        mean(memory.mean.data()),
        inverse_deviation(memory.inverse_deviation.data()),
        bias(memory.bias.empty() ? nullptr : memory.bias.data()),
        momentum(settings.momentum),
        epsilon(settings.epsilon) {}

  MRMF_HD void write(Index c, double average, double rounded_variance, double count) const {
    const double variance = rounded_variance < 0 ? 0 : rounded_variance;
    mean[c] = static_cast<float>(average);
    inverse_deviation[c] = static_cast<float>(1.0 / std::sqrt(variance + epsilon));
    const double unbiased = variance * (count / (count > 2 ? count - 1 : 1.0));
    const double whole = average + (bias == nullptr ? 0 : bias[c]);
    running_mean[c] = static_cast<float>(running_mean[c] + momentum * (whole - running_mean[c]));
    running_variance[c] = static_cast<float>(running_variance[c] + momentum * (unbiased - running_variance[c]));
  }
};

/// The rows of x that statistics are of: all of them...
struct AllRows {
  std::size_t count;

  MRMF_HD std::size_t operator()(std::uint32_t row) const { return row; }
};
/// ...or those of a box of positions.
struct RowsOfBox {
  std::size_t count;
  Divider by_row, by_plane, by_box;  // divide by the box's last axis, the axis before, the first
  Extent first, in;

  RowsOfBox(const Box& box, const Extent& sizes, Index n)
      : count(static_cast<std::size_t>(n * product(box.count))),
        by_row(box.count[2]),
        by_plane(box.count[1]),
        by_box(box.count[0]),
        first(box.first),
        in(sizes) {}

  MRMF_HD std::size_t operator()(std::uint32_t row) const {
    std::uint32_t rest = row;
    const Index k = by_row.take(rest), j = by_plane.take(rest), i = by_box.take(rest);
    return static_cast<std::size_t>(((rest * in[0] + first[0] + i) * in[1] + first[1] + j) * in[2] + first[2] + k);
  }
};

/// Reads x; sums of distances from a value of the channel, and of their squares.
template <class T, class Rows>
struct Statistics {
  static constexpr int unroll = 4;
  const T* x;
  std::size_t vectors;
  Rows rows;
  std::size_t channels;
  StatisticsTarget target;
  double* global;  // null: these statistics are final; else where the ranks' sums begin

  /// The median of three rows' values, so that an outlier among them does no harm.
  MRMF_HD float origin(std::size_t c) const {
    if (rows.count == 0) return 0;
    const auto value = [&](std::size_t row) {
      return to_float(x[rows(static_cast<std::uint32_t>(row)) * vectors * width<T> + c]);
    };
    const float a = value(0), b = value(rows.count / 2), d = value(rows.count - 1);
    const float low = a < b ? a : b, high = a < b ? b : a;
    return d < low ? low : d > high ? high : d;
  }

  MRMF_HD auto at(std::uint32_t vector) const {
    struct Body {
      const T* x;
      Rows rows;
      std::size_t vectors, vector;
      float origin[width<T>];

      MRMF_HD void operator()(std::uint32_t row, float (&sums)[2][width<T>]) const {
        float value[width<T>];
        load_constant(x, rows(row) * vectors + vector, value);
        for (int i = 0; i < width<T>; ++i) {
          const float distance = value[i] - origin[i];
          sums[0][i] += distance;
          sums[1][i] += distance * distance;
        }
      }
    };
    Body body{x, rows, vectors, vector, {}};
    for (int i = 0; i < width<T>; ++i) body.origin[i] = origin(std::size_t{vector} * width<T> + i);
    return body;
  }

  /// Ranks add plain sums: in double these lose nothing that float32 data had.
  MRMF_HD void finish(Index c, const double (&totals)[2]) const {
    const auto count = static_cast<double>(rows.count);
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

template <class T, class Rows>
void write_statistics_of(const Rows& rows, const NormWork& norm, const void* x, const NormMemory& memory) {
  const NormScratch scratch(norm.settings, norm.scratch);
  const NormSettings& settings = norm.settings.norm;
  const Reduction r{static_cast<Index>(rows.count), norm.work.storage.vectors(settings.channels), settings.channels,
                    scratch.partials};
  const StatisticsTarget target(settings, memory);
  const auto count = [](Index i) { return static_cast<std::size_t>(i); };
  reduce<2, width<T>>(norm.work.stream, r,
                      Statistics<T, Rows>{elements<T>(x), count(r.vectors), rows, count(r.channels), target,
                                          norm.ranks == nullptr ? nullptr : scratch.sums});
  if (norm.ranks == nullptr) return;
  norm.ranks->sum({scratch.sums, count(NormScratch::sum_count(norm.settings))});
  for_each(norm.work.stream, r.channels, GlobalStatistics{scratch.sums, count32(r.channels), target});
}

template <class T>
void write_statistics(const NormWork& norm, Index n, const void* x, const NormMemory& memory) {
  const NormSettings& settings = norm.settings.norm;
  if (settings.counted)
    write_statistics_of<T>(RowsOfBox(*settings.counted, settings.in, n), norm, x, memory);
  else
    write_statistics_of<T>(AllRows{static_cast<std::size_t>(norm_positions(norm.settings, n))}, norm, x, memory);
}

/// The normalisation of one vector's channels: (x - mean) * factor + beta.
template <int W>
struct Affine {
  float mean[W], factor[W], beta[W];

  MRMF_HD float operator()(int i, float x) const { return (x - mean[i]) * factor[i] + beta[i]; }
};

/// Where a norm's parameters are.
struct NormParameters {
  const float *gamma = nullptr, *beta = nullptr, *mean = nullptr;
  const float* bias = nullptr;    // in the mean, but not in x; null: none
  const float* spread = nullptr;  // inverse deviation, or the variance
  bool is_variance = false;
  float epsilon = 0;
  std::uint32_t channels = 0;

  NormParameters() = default;
  NormParameters(const NormSettings& settings, const NormMemory& memory, bool training)
      : gamma(memory.gamma.data()),
        beta(memory.beta.data()),
        mean(training ? memory.mean.data() : memory.running_mean.data()),
        bias(training || memory.bias.empty() ? nullptr : memory.bias.data()),
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
    if (bias != nullptr) {
      float left_out[W];
      load_parameters(bias, vector, channels, left_out);
      for (int i = 0; i < W; ++i) a.mean[i] -= left_out[i];
    }
    for (int i = 0; i < W; ++i) {
      if (is_variance) inverse[i] = 1.0F / std::sqrt(inverse[i] + epsilon);
      a.factor[i] *= inverse[i];
    }
    return a;
  }
  /// The same with gamma 1 and beta 0; of a training step.
  template <int W>
  MRMF_HD Affine<W> read_unscaled(std::uint32_t vector) const {
    Affine<W> a{};
    load_parameters(mean, vector, channels, a.mean);
    load_parameters(spread, vector, channels, a.factor);
    return a;
  }
};

}  // namespace mrmf::cuda
