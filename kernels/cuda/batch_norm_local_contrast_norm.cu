// Batch norm of stored activations, with the activation and the pooling behind it, and local contrast normalisation.
#include "kernels/cuda/batch_norm.cuh"

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {

// Batch norm of stored activations, forward and backward, with the activation and the pooling behind it.

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
void with_behind(const NormReluPool& settings, Index samples, Use use) {
  const PoolGeometry none{PoolKind::average, settings.norm.channels, settings.in, {1, 1, 1}, {1, 1, 1}};
  with_windows(settings.pool.value_or(none), samples,
               [&](const auto& windows) { use(Behind(windows, settings.slope)); });
}

Index norm_windows(const NormReluPool& settings, Index n) {
  return n * (settings.pool ? product(settings.pool->out()) : product(settings.in));
}

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

}  // namespace

NormReluPool plain_norm(const NormSettings& settings, Index positions) {
  return {.norm = settings, .in = {1, 1, positions}, .axes = 1, .slope = 1, .pool = std::nullopt};
}

std::size_t norm_scratch_bytes(const Storage& storage, const NormReluPool& settings, Index n) {
  const Index channels = settings.norm.channels;
  const Reduction r{norm_positions(settings, n), storage.vectors(channels), channels, nullptr};
  return static_cast<std::size_t>(NormScratch::sum_count(settings) + r.partial_doubles(2)) * sizeof(double);
}

void norm_statistics(const NormWork& norm, Index n, const void* x, const NormMemory& memory) {
  with_element(norm.work.storage, [&]<class T>(T) { write_statistics<T>(norm, n, x, memory); });
}

void norm_forward(const NormWork& norm, bool training, Index n, const void* x, const NormMemory& memory, void* y) {
  const Storage& storage = norm.work.storage;
  const Index vectors = storage.vectors(norm.settings.norm.channels);
  with_element(storage, [&]<class T>(T) {
    if (training) write_statistics<T>(norm, n, x, memory);
    with_behind(norm.settings, n, [&]<class B>(const B& behind) {
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
               [&](auto element) { with_behind(norm.settings, n, [&](const auto& behind) { run(element, behind); }); });
}

// Local contrast normalisation: a thread for every position, which adds up its channels and its window of one number
// per position.

namespace {

/// What all passes know.
struct Contrast {
  ContrastWindow window;
  ContrastFields fields;
  std::uint32_t channels;
  std::size_t stored;  // elements of a position
  std::uint32_t in;
  float inverse, floor;

  Contrast(const Work& work, const ContrastGeometry& g, Index n, Span kept)
      : window(g),
        fields(kept, n * product(g.in)),
        channels(count32(g.channels)),
        stored(static_cast<std::size_t>(work.storage.channels(g.channels))),
        in(count32(product(g.in))),
        inverse(1.0F / static_cast<float>(g.channels)),
        floor(g.floor) {}

  /// A position of a row: where the row's begin in a field, and its number among all rows' of x.
  struct RowPosition {
    Position at;
    std::size_t row, number;
  };
  MRMF_HD RowPosition row_position(const PositionBox& box, std::uint32_t i) const {
    const auto count = static_cast<std::uint32_t>(box.count());
    RowPosition p{ContrastWindow::position(box, static_cast<std::int32_t>(i % count)), std::size_t{i / count} * in, 0};
    p.number = p.row + static_cast<std::size_t>(window.number(p.at));
    return p;
  }
  MRMF_HD float factor(const RowPosition& p) const {
    const float deviation = fields.deviation[p.number];
    return 1 / (deviation < floor ? floor : deviation);
  }
  /// The position's number among all rows' of y.
  MRMF_HD std::size_t number_in_out(const RowPosition& p) const {
    return p.row / in * static_cast<std::size_t>(window.out.count()) +
           static_cast<std::size_t>(window.number_in_out(p.at));
  }
  template <class T>
  MRMF_HD float sum(const T* x, float mean) const {
    float total = 0;
    for (std::uint32_t c = 0; c < channels; ++c) total += to_float(x[c]) - mean;
    return total;
  }
};

/// Reads x, writes the mean over channels.
template <class T>
struct ChannelMeans {
  Contrast of;
  const T* x;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.all, i);
    of.fields.first[p.number] = of.sum(x + p.number * of.stored, 0) * of.inverse;
  }
};

/// Reads x and those means, writes the window's mean and the mean square of what is left.
template <class T>
struct WindowMeans {
  Contrast of;
  const T* x;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.middle, i);
    const float mean = of.window.share(p.at) * of.window.sum(of.fields.first + p.row, of.window.all, p.at);
    float squares = 0;
    for (std::uint32_t c = 0; c < of.channels; ++c) {
      const float left = to_float(x[p.number * of.stored + c]) - mean;
      squares += left * left;
    }
    of.fields.mean[p.number] = mean;
    of.fields.second[p.number] = squares * of.inverse;
  }
};

/// Reads x, means and mean squares, writes the deviation and y.
template <class T>
struct Quotients {
  Contrast of;
  const T* x;
  T* y;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.out, i);
    const float variance = of.window.share(p.at) * of.window.sum(of.fields.second + p.row, of.window.middle, p.at);
    of.fields.deviation[p.number] = std::sqrt(variance);
    const float mean = of.fields.mean[p.number], factor = of.factor(p);
    for (std::uint32_t c = 0; c < of.stored; ++c)
      store_element(c < of.channels ? (to_float(x[p.number * of.stored + c]) - mean) * factor : 0, y,
                    i * of.stored + c);
  }
};

/// Reads x and dy, writes the gradient of the variance around each position of y.
template <class T>
struct VarianceGradients {
  Contrast of;
  const T *x, *dy;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.out, i);
    const float deviation = of.fields.deviation[p.number], mean = of.fields.mean[p.number];
    float total = 0;
    for (std::uint32_t c = 0; c < of.channels; ++c)
      total += to_float(dy[i * of.stored + c]) * (to_float(x[p.number * of.stored + c]) - mean);
    of.fields.first[p.number] =
        deviation < of.floor ? 0 : -total * of.window.share(p.at) / (2 * deviation * deviation * deviation);
  }
};

/// Reads x, dy and those gradients, writes the slope of what is left's squares, and the gradient of the mean.
template <class T>
struct MeanGradients {
  Contrast of;
  const T *x, *dy;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.middle, i);
    const float slope = 2 * of.inverse * of.window.sum(of.fields.first + p.row, of.window.out, p.at);
    const float left = of.sum(x + p.number * of.stored, of.fields.mean[p.number]);
    float of_y = 0;
    if (ContrastWindow::has(of.window.out, p.at)) of_y = of.factor(p) * of.sum(dy + of.number_in_out(p) * of.stored, 0);
    of.fields.second[p.number] = slope;
    of.fields.third[p.number] = -(of_y + slope * left) * of.inverse * of.window.share(p.at);
  }
};

/// Reads x, dy and both, writes dx.
template <class T>
struct InputGradients {
  Contrast of;
  const T *x, *dy;
  T* dx;
  MRMF_HD void operator()(std::uint32_t i) const {
    const Contrast::RowPosition p = of.row_position(of.window.all, i);
    const float of_mean = of.window.sum(of.fields.third + p.row, of.window.middle, p.at);
    const bool near = ContrastWindow::has(of.window.middle, p.at), here = ContrastWindow::has(of.window.out, p.at);
    const float mean = near ? of.fields.mean[p.number] : 0, slope = near ? of.fields.second[p.number] : 0;
    const float factor = here ? of.factor(p) : 0;
    const std::size_t from = here ? of.number_in_out(p) * of.stored : 0;
    for (std::uint32_t c = 0; c < of.stored; ++c) {
      float value = 0;
      if (c < of.channels) {
        value = of_mean + slope * (to_float(x[p.number * of.stored + c]) - mean);
        if (here) value += factor * to_float(dy[from + c]);
      }
      store_element(value, dx, p.number * of.stored + c);
    }
  }
};

}  // namespace

void contrast_forward(const Work& work, const ContrastGeometry& geometry, Index n, const void* x, Span kept, void* y) {
  const Contrast of(work, geometry, n, kept);
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, n * product(geometry.in), ChannelMeans<T>{of, elements<T>(x)});
    for_each(work.stream, n * product(geometry.middle().count), WindowMeans<T>{of, elements<T>(x)});
    for_each(work.stream, n * product(geometry.out.count), Quotients<T>{of, elements<T>(x), elements<T>(y)});
  });
}

void contrast_backward(const Work& work, const ContrastGeometry& geometry, Index n, const ContrastBackwardData& data) {
  const Contrast of(work, geometry, n, data.kept);
  with_element(work.storage, [&]<class T>(T) {
    const T *x = elements<T>(data.x), *dy = elements<T>(data.dy);
    for_each(work.stream, n * product(geometry.out.count), VarianceGradients<T>{of, x, dy});
    for_each(work.stream, n * product(geometry.middle().count), MeanGradients<T>{of, x, dy});
    for_each(work.stream, n * product(geometry.in), InputGradients<T>{of, x, dy, elements<T>(data.dx)});
  });
}

}  // namespace mrmf::cuda
