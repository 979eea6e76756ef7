#include "kernels/cuda/norm.hpp"

#include "kernels/cuda/norm.cuh"

namespace mrmf::cuda {
namespace {

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

}  // namespace mrmf::cuda
