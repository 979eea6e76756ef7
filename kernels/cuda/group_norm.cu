// Norms over each sample's own values, in groups of channels, with the ReLU behind them.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {
namespace {

/// The numbers that kernels index with. A group of a sample has the index sample * groups + group.
struct Layout {
  Samples samples;
  Divider by_width;  // channels of a group
  std::uint32_t channels, groups, width, stored;
  double values;  // values of a group, in whole samples

  Layout(const Storage& storage, const GroupNormSettings& s)
      : samples(s.positions, storage.vectors(s.channels)),
        by_width(s.channels / s.groups),
        channels(count32(s.channels)),
        groups(count32(s.groups)),
        width(count32(s.channels / s.groups)),
        stored(count32(storage.channels(s.channels))),
        values(static_cast<double>(s.values())) {}

  MRMF_HD std::size_t group_index(std::uint32_t sample, std::uint32_t channel) const {
    return std::size_t{sample} * groups + by_width.quotient(channel);
  }
  /// Where the sums of a channel of the group with this index are.
  MRMF_HD std::size_t sum_of(std::uint32_t index, std::uint32_t channel_in_group) const {
    const std::uint32_t sample = index / groups;
    return std::size_t{sample} * stored + (index - sample * groups) * width + channel_in_group;
  }
};

/// The scratch: two sums for every sample and stored channel, two terms of dx for every group of a sample, and partial
/// sums.
struct Scratch {
  double* sums;  // the first ones, then the second
  std::size_t second;
  float *offset, *tilt;
  double* partials;

  Scratch(const Storage& storage, const GroupNormSettings& s, Index n, void* memory)
      : sums(static_cast<double*>(memory)), second(static_cast<std::size_t>(n * storage.channels(s.channels))) {
    const auto groups = static_cast<std::size_t>(n * s.groups);
    offset = reinterpret_cast<float*>(sums + 2 * second);
    tilt = offset + groups;
    partials = sums + 2 * second + groups;
  }
  std::span<double> all() const { return {sums, 2 * second}; }
};

/// The reductions: over positions, over the channels of a group, over the samples.
Reduction over_channels(const GroupNormSettings& s, Index n, double* partials) {
  return {s.channels / s.groups, n * s.groups, n * s.groups, partials};
}
Reduction over_samples(const GroupNormSettings& s, Index n, double* partials) {
  return {n, s.channels, s.channels, partials};
}

/// Reads x: sums of distances from a value of the group, and of their squares, per sample and channel. Where ranks
/// share the samples, sums of values and squares, which they can add: in double these lose nothing that float32 had.
template <class T>
struct Moments {
  static constexpr int unroll = 4;
  Layout layout;
  const T* x;
  double* sums;
  std::size_t second;
  bool shared;

  /// The median of the group's first channel at three positions, so that an outlier among them does no harm.
  MRMF_HD float origin(std::uint32_t sample, std::uint32_t channel) const {
    const std::uint32_t first = layout.by_width.quotient(channel) * layout.width;
    const auto value = [&](std::size_t position) {
      return to_float(x[(sample * layout.samples.positions + position) * layout.stored + first]);
    };
    const std::size_t last = layout.samples.positions - 1;
    const float a = value(0), b = value(last / 2), d = value(last);
    const float low = a < b ? a : b, high = a < b ? b : a;
    return d < low ? low : d > high ? high : d;
  }

  struct Body {
    const T* x;
    Samples::Column column;
    float origin[width<T>];
    bool used[width<T>];

    MRMF_HD void operator()(std::uint32_t position, float (&to)[2][width<T>]) const {
      float value[width<T>];
      load_constant(x, column.at(position), value);
      for (int i = 0; i < width<T>; ++i) {
        const float distance = used[i] ? value[i] - origin[i] : 0;
        to[0][i] += distance;
        to[1][i] += distance * distance;
      }
    }
  };
  MRMF_HD Body at(std::uint32_t index) const {
    Body body{x, layout.samples.column(index), {}, {}};
    for (std::uint32_t i = 0; i < width<T>; ++i) {
      const std::uint32_t channel = body.column.vector * width<T> + i;
      body.used[i] = channel < layout.channels;
      if (body.used[i]) body.origin[i] = origin(body.column.sample, channel);
    }
    return body;
  }
  MRMF_HD void finish(Index i, const double (&totals)[2]) const {
    const auto at = static_cast<std::size_t>(i);
    const auto sample = static_cast<std::uint32_t>(at / layout.stored);
    const auto channel = static_cast<std::uint32_t>(at - std::size_t{sample} * layout.stored);
    sums[at] = totals[0];
    sums[second + at] = totals[1];
    if (!shared || channel >= layout.channels) return;
    const double from = origin(sample, channel), count = static_cast<double>(layout.samples.positions);
    sums[at] += count * from;
    sums[second + at] += from * (2 * totals[0] + count * from);
  }
};

/// From the sums of a group's channels: its mean and deviation.
template <class T>
struct Statistics {
  static constexpr int unroll = 1;
  using Partial = double;
  Moments<T> moments;
  float *mean, *inverse_deviation;
  double epsilon;

  MRMF_HD auto at(std::uint32_t index) const {
    return [f = *this, index](std::uint32_t channel, double(&to)[2][1]) {
      const std::size_t i = f.moments.layout.sum_of(index, channel);
      to[0][0] += f.moments.sums[i];
      to[1][0] += f.moments.sums[f.moments.second + i];
    };
  }
  MRMF_HD void finish(Index index, const double (&totals)[2]) const {
    const Layout& layout = moments.layout;
    const auto sample = static_cast<std::uint32_t>(index) / layout.groups;
    const auto group = static_cast<std::uint32_t>(index) - sample * layout.groups;
    const double shift = totals[0] / layout.values, variance = totals[1] / layout.values - shift * shift;
    const double from = moments.shared ? 0 : moments.origin(sample, group * layout.width);
    mean[index] = static_cast<float>(from + shift);
    inverse_deviation[index] = static_cast<float>(1.0 / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
  }
};

/// Where the norm's parameters and statistics are, and the activation's slope below zero.
struct Parameters {
  const float *gamma, *beta, *mean, *inverse_deviation;
  float slope;

  Parameters(const NormMemory& memory, const GroupNormSettings& settings)
      : gamma(memory.gamma.data()),
        beta(memory.beta.data()),
        mean(memory.mean.data()),
        inverse_deviation(memory.inverse_deviation.data()),
        slope(settings.slope) {}
};

/// Terms of one vector of channels of a sample; pad channels have zeros.
template <int W>
struct Terms {
  float gamma[W], beta[W], mean[W], inverse[W], offset[W], tilt[W];
  float slope;

  /// offset and tilt may be null.
  MRMF_HD Terms(const Layout& layout, const Samples::Column& column, const Parameters& from, const float* offsets,
                const float* tilts)
      : slope(from.slope) {
    load_parameters(from.gamma, column.vector, layout.channels, gamma);
    load_parameters(from.beta, column.vector, layout.channels, beta);
    for (std::uint32_t i = 0; i < W; ++i) {
      const std::uint32_t channel = column.vector * W + i;
      const bool used = channel < layout.channels;
      const std::size_t index = used ? layout.group_index(column.sample, channel) : 0;
      mean[i] = used ? from.mean[index] : 0;
      inverse[i] = used ? from.inverse_deviation[index] : 0;
      offset[i] = used && offsets != nullptr ? offsets[index] : 0;
      tilt[i] = used && tilts != nullptr ? tilts[index] : 0;
    }
  }

  MRMF_HD float output(int i, float x) const { return (x - mean[i]) * (gamma[i] * inverse[i]) + beta[i]; }
  MRMF_HD float activate(int i, float x) const { return activation(ActivationKind::leaky_relu, slope, output(i, x)); }
  MRMF_HD float gradient(int i, float x, float dy) const {
    return activation_gradient(ActivationKind::leaky_relu, slope, output(i, x), dy);
  }
};

/// Per element of y: reads x, writes y.
template <class T>
struct Apply {
  Layout layout;
  Parameters parameters;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t index) const {
    const Samples::Column column = layout.samples.column(index);
    return [f = *this, column,
            terms = Terms<width<T>>(layout, column, parameters, nullptr, nullptr)](std::uint32_t position) {
      float value[width<T>];
      load_constant(f.x, column.at(position), value);
      for (int i = 0; i < width<T>; ++i) value[i] = terms.activate(i, value[i]);
      store(value, f.y, column.at(position));
    };
  }
};

/// Reads x and dy: sums of dz, the gradient in front of the activation, and of dz * (x - mean), per sample and channel.
template <class T>
struct GradientSums {
  static constexpr int unroll = 4;
  Layout layout;
  Parameters parameters;
  const T* x;
  const T* dy;
  double* sums;
  std::size_t second;

  MRMF_HD auto at(std::uint32_t index) const {
    const Samples::Column column = layout.samples.column(index);
    return [f = *this, column, terms = Terms<width<T>>(layout, column, parameters, nullptr, nullptr)](
               std::uint32_t position, float(&to)[2][width<T>]) {
      float value[width<T>], gradient[width<T>];
      load_constant(f.x, column.at(position), value);
      load_constant(f.dy, column.at(position), gradient);
      for (int i = 0; i < width<T>; ++i) {
        const float dz = terms.gradient(i, value[i], gradient[i]);
        to[0][i] += dz;
        to[1][i] += dz * (value[i] - terms.mean[i]);
      }
    };
  }
  MRMF_HD void finish(Index i, const double (&totals)[2]) const {
    sums[i] = totals[0];
    sums[second + static_cast<std::size_t>(i)] = totals[1];
  }
};

/// dbeta and dgamma from the sums of all samples.
struct ParameterGradients {
  static constexpr int unroll = 1;
  Layout layout;
  const float* inverse_deviation;
  const double* sums;
  std::size_t second;
  float *dgamma, *dbeta;

  MRMF_HD auto at(std::uint32_t channel) const {
    return [f = *this, channel](std::uint32_t sample, float(&to)[2][1]) {
      const std::size_t i = std::size_t{sample} * f.layout.stored + channel;
      to[0][0] += static_cast<float>(f.sums[i]);
      to[1][0] += static_cast<float>(f.sums[f.second + i] * f.inverse_deviation[f.layout.group_index(sample, channel)]);
    };
  }
  MRMF_HD void finish(Index channel, const double (&totals)[2]) const {
    dbeta[channel] = static_cast<float>(totals[0]);
    dgamma[channel] = static_cast<float>(totals[1]);
  }
};

/// A group's terms, from its channels' sums, of dx = gamma inverse dz - offset - (x - mean) tilt.
struct DataTerms {
  static constexpr int unroll = 1;
  Layout layout;
  const float *gamma, *inverse_deviation;
  const double* sums;
  std::size_t second;
  float *offset, *tilt;

  MRMF_HD auto at(std::uint32_t index) const {
    return [f = *this, index](std::uint32_t channel, float(&to)[2][1]) {
      const std::size_t i = f.layout.sum_of(index, channel);
      const double factor = f.gamma[index % f.layout.groups * f.layout.width + channel];
      to[0][0] += static_cast<float>(factor * f.sums[i]);
      to[1][0] += static_cast<float>(factor * f.sums[f.second + i]);
    };
  }
  MRMF_HD void finish(Index index, const double (&totals)[2]) const {
    const double inverse = inverse_deviation[index];
    offset[index] = static_cast<float>(inverse * totals[0] / layout.values);
    tilt[index] = static_cast<float>(inverse * inverse * inverse * totals[1] / layout.values);
  }
};

/// Per element of dx: reads x and dy, writes dx.
template <class T>
struct DataGradient {
  Layout layout;
  Parameters parameters;
  const float *offset, *tilt;
  const T* x;
  const T* dy;
  T* dx;

  MRMF_HD auto at(std::uint32_t index) const {
    const Samples::Column column = layout.samples.column(index);
    return
        [f = *this, column, terms = Terms<width<T>>(layout, column, parameters, offset, tilt)](std::uint32_t position) {
          float value[width<T>], gradient[width<T>];
          load_constant(f.x, column.at(position), value);
          load_constant(f.dy, column.at(position), gradient);
          for (int i = 0; i < width<T>; ++i)
            value[i] = terms.gamma[i] * terms.inverse[i] * terms.gradient(i, value[i], gradient[i]) - terms.offset[i] -
                       (value[i] - terms.mean[i]) * terms.tilt[i];
          store(value, f.dx, column.at(position));
        };
  }
};

}  // namespace

std::size_t group_norm_bytes(const Storage& storage, const GroupNormSettings& settings, Index n) {
  const Layout layout(storage, settings);
  const int width = static_cast<int>(storage.pad);
  const auto of_positions = [&](Index m) { return layout.samples.reduction(m, width, nullptr); };
  const auto of_channels = [&](Index m) { return over_channels(settings, m, nullptr); };
  const auto of_samples = [&](Index m) { return over_samples(settings, m, nullptr); };
  const Index partials =
      std::max({most_partials(n, 2, of_positions), most_partials(n, 2, of_channels), most_partials(n, 2, of_samples)});
  return static_cast<std::size_t>(2 * n * storage.channels(settings.channels) + n * settings.groups + partials) *
         sizeof(double);
}

void group_norm_forward(const GroupNormWork& norm, Index n, const void* x, const NormMemory& memory, void* y) {
  const Storage& storage = norm.work.storage;
  const Layout layout(storage, norm.settings);
  const Scratch scratch(storage, norm.settings, n, norm.scratch);
  const Index columns = n * static_cast<Index>(layout.samples.vectors);
  with_element(storage, [&]<class T>(T) {
    const Moments<T> moments{layout, elements<T>(x), scratch.sums, scratch.second, norm.sample_sum != nullptr};
    reduce<2, width<T>>(norm.work.stream, layout.samples.reduction(n, width<T>, scratch.partials), moments);
    if (norm.sample_sum != nullptr) norm.sample_sum->sum(scratch.all());
    reduce<2, 1>(norm.work.stream, over_channels(norm.settings, n, scratch.partials),
                 Statistics<T>{moments, memory.mean.data(), memory.inverse_deviation.data(), norm.settings.epsilon});
    for_each_row(norm.work.stream, norm.settings.positions, columns,
                 Apply<T>{layout, Parameters(memory, norm.settings), elements<T>(x), elements<T>(y)});
  });
}

void group_norm_backward(const GroupNormWork& norm, Index n, const NormBackward& data, const NormMemory& memory) {
  const Storage& storage = norm.work.storage;
  const Layout layout(storage, norm.settings);
  const Scratch scratch(storage, norm.settings, n, norm.scratch);
  const Index columns = n * static_cast<Index>(layout.samples.vectors);
  const float* const inverse = memory.inverse_deviation.data();
  with_element(storage, [&]<class T>(T) {
    const auto *x = elements<T>(data.x), *dy = elements<T>(data.dy);
    reduce<2, width<T>>(
        norm.work.stream, layout.samples.reduction(n, width<T>, scratch.partials),
        GradientSums<T>{layout, Parameters(memory, norm.settings), x, dy, scratch.sums, scratch.second});
    reduce<2, 1>(norm.work.stream, over_samples(norm.settings, n, scratch.partials),
                 ParameterGradients{layout, inverse, scratch.sums, scratch.second, data.dgamma, data.dbeta});
    if (norm.sample_sum != nullptr) norm.sample_sum->sum(scratch.all());
    if (data.dx == nullptr) return;
    reduce<2, 1>(
        norm.work.stream, over_channels(norm.settings, n, scratch.partials),
        DataTerms{layout, memory.gamma.data(), inverse, scratch.sums, scratch.second, scratch.offset, scratch.tilt});
    for_each_row(norm.work.stream, norm.settings.positions, columns,
                 DataGradient<T>{layout, Parameters(memory, norm.settings), scratch.offset, scratch.tilt, x, dy,
                                 elements<T>(data.dx)});
  });
}

}  // namespace mrmf::cuda
