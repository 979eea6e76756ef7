// Locally connected layers; the penalty and the constraint of reconstruction ICA, which is made of them. Every thread
// gathers what it needs, so that there are no atomics, and reads weights where they lie: they are used once for each
// sample.
#include <cmath>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// Sizes of a layer, and where its fields lie.
struct Fields {
  Windows<> windows;
  std::uint32_t in, out;  // channels
  std::size_t stored_in, stored_out;
  std::uint32_t positions;  // positions of the output
  std::size_t taps;

  Fields(const Storage& storage, const ConvGeometry& g, Index n)
      : windows({.channels = g.in_channels, .in = g.in, .window = g.kernel, .stride = g.stride}, n),
        in(count32(g.in_channels)),
        out(count32(g.out_channels)),
        stored_in(static_cast<std::size_t>(storage.channels(g.in_channels))),
        stored_out(static_cast<std::size_t>(storage.channels(g.out_channels))),
        positions(count32(product(g.out()))),
        taps(static_cast<std::size_t>(product(g.kernel))) {}

  /// The first weight of an output, for a tap.
  MRMF_HD std::size_t weight(std::uint32_t out_row, std::uint32_t feature, std::uint32_t tap) const {
    return ((std::size_t{out_row % positions} * out + feature) * taps + tap) * in;
  }
};

/// Per element of y: reads its field and its weights, writes y.
template <class T>
struct LocalForward {
  Fields fields;
  const T* x;
  const float *w, *b;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int width_of = width<T>;
      float sum[width_of] = {};
      for (int i = 0; i < width_of; ++i) {
        const std::uint32_t feature = vector * width_of + static_cast<std::uint32_t>(i);
        if (feature >= f.fields.out) continue;
        float total = f.b != nullptr ? f.b[std::size_t{row % f.fields.positions} * f.fields.out + feature] : 0;
        f.fields.windows.for_each_tap(row, [&](std::uint32_t tap, std::uint32_t from) {
          const float* const weights = f.w + f.fields.weight(row, feature, tap);
          const T* const input = f.x + from * f.fields.stored_in;
          for (std::uint32_t c = 0; c < f.fields.in; ++c) total += weights[c] * to_float(input[c]);
        });
        sum[i] = total;
      }
      store(sum, f.y, row * (f.fields.stored_out / width_of) + vector);
    };
  }
};

/// Per element of dx: reads dy and the weights of every field that covers it, writes dx.
template <class T>
struct LocalData {
  Fields fields;
  const T* dy;
  const float* w;
  T* dx;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int width_of = width<T>;
      float sum[width_of] = {};
      f.fields.windows.for_each_cover(row, [&](std::uint32_t tap, std::uint32_t from) {
        for (std::uint32_t feature = 0; feature < f.fields.out; ++feature) {
          const float gradient = to_float(f.dy[from * f.fields.stored_out + feature]);
          const float* const weights = f.w + f.fields.weight(from, feature, tap);
          for (int i = 0; i < width_of; ++i)
            if (const std::uint32_t c = vector * width_of + static_cast<std::uint32_t>(i); c < f.fields.in)
              sum[i] += gradient * weights[c];
        }
      });
      store(sum, f.dx, row * (f.fields.stored_in / width_of) + vector);
    };
  }
};

/// Per weight: reads its input and dy of every sample. Neighbouring threads have neighbouring weights.
template <class T>
struct LocalWeights {
  Fields fields;
  std::uint32_t samples;
  const T *x, *dy;
  bool add;
  float* dw;

  /// `sum` and the gradient of this weight.
  MRMF_HD float added(float sum, std::uint32_t weight) const {
    const std::uint32_t channel = weight % fields.in, of_taps = weight / fields.in;
    const std::uint32_t tap = of_taps % static_cast<std::uint32_t>(fields.taps);
    const std::uint32_t unit = of_taps / static_cast<std::uint32_t>(fields.taps);
    const std::uint32_t position = unit / fields.out, feature = unit % fields.out;
    for (std::uint32_t sample = 0; sample < samples; ++sample) {
      const std::uint32_t row = sample * fields.positions + position;
      sum += to_float(dy[row * fields.stored_out + feature]) *
             to_float(x[fields.windows.tap_row(row, tap) * fields.stored_in + channel]);
    }
    return sum;
  }
  MRMF_HD void operator()(std::uint32_t weight) const { dw[weight] = added(add ? dw[weight] : 0, weight); }
};

/// Per output: reads dy of every sample.
template <class T>
struct LocalBiases {
  Fields fields;
  std::uint32_t samples;
  const T* dy;
  float* db;

  MRMF_HD float sum(std::uint32_t unit) const {
    float sum = 0;
    for (std::uint32_t sample = 0; sample < samples; ++sample)
      sum += to_float(dy[(sample * fields.positions + unit / fields.out) * fields.stored_out + unit % fields.out]);
    return sum;
  }
  MRMF_HD void operator()(std::uint32_t unit) const { db[unit] = sum(unit); }
};

/// A parameter moves by its gradient; velocity may be null.
MRMF_HD void move(const StepBlock* step, float* w, float gradient, float* velocity, std::uint32_t i) {
  if (velocity == nullptr)
    sgd_update(step->sgd, w[i], gradient);
  else
    sgd_update(step->sgd, w[i], gradient, velocity[i]);
}

/// Per weight: reads what its gradient is made of, writes the weight and its velocity.
template <class T>
struct LocalUpdate {
  LocalWeights<T> first, second;
  bool two;
  const StepBlock* step;
  float *w, *velocity;

  MRMF_HD void operator()(std::uint32_t weight) const {
    float gradient = first.added(0, weight);
    if (two) gradient = second.added(gradient, weight);
    move(step, w, gradient, velocity, weight);
  }
};

/// The same of an output's bias.
template <class T>
struct LocalBiasUpdate {
  LocalBiases<T> biases;
  const StepBlock* step;
  float *b, *velocity;

  MRMF_HD void operator()(std::uint32_t unit) const { move(step, b, biases.sum(unit), velocity, unit); }
};

/// Per group of channels of a position: reads x, adds to dx.
template <class T>
struct AddSparsity {
  SparsitySettings settings;
  std::uint32_t groups;  // groups of channels of a position
  std::size_t stored;
  const StepBlock* step;
  const T* x;
  T* dx;

  MRMF_HD void operator()(std::uint32_t i) const {
    const std::size_t first = i / groups * stored + i % groups * static_cast<std::size_t>(settings.pooled);
    float squares = 0;
    for (Index k = 0; k < settings.pooled; ++k) {
      const float value = to_float(x[first + static_cast<std::size_t>(k)]);
      squares += value * value;
    }
    const float share = settings.weight * step->whole_loss_weight / std::sqrt(settings.epsilon + squares);
    for (Index k = 0; k < settings.pooled; ++k) {
      const std::size_t at = first + static_cast<std::size_t>(k);
      store_element(to_float(dx[at]) + share * to_float(x[at]), dx, at);
    }
  }
};

/// Per row: reads and writes it.
struct ScaleRows {
  std::size_t count;
  float length;
  float* w;

  MRMF_HD void operator()(std::uint32_t i) const {
    float* const row = w + i * count;
    double squares = 0;
    for (std::size_t k = 0; k < count; ++k) squares += static_cast<double>(row[k]) * row[k];
    const double factor = squares > 0 ? length / std::sqrt(squares) : 1;
    for (std::size_t k = 0; k < count; ++k) row[k] = static_cast<float>(row[k] * factor);
  }
};

}  // namespace

void local_forward(const Work& work, const ConvGeometry& geometry, Index n, const LocalForwardData& data) {
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(
        work.stream, n * product(geometry.out()), work.storage.vectors(geometry.out_channels),
        LocalForward<T>{Fields(work.storage, geometry, n), elements<T>(data.x), data.w, data.b, elements<T>(data.y)});
  });
}

void local_backward_data(const Work& work, const ConvGeometry& geometry, Index n, const void* dy, const float* w,
                         void* dx) {
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, n * product(geometry.in), work.storage.vectors(geometry.in_channels),
                 LocalData<T>{Fields(work.storage, geometry, n), elements<T>(dy), w, elements<T>(dx)});
  });
}

void local_backward_weights(const Work& work, const ConvGeometry& geometry, Index n, const LocalWeightsData& data) {
  const Fields fields(work.storage, geometry, n);
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, product(geometry.out()) * geometry.weights(),
             LocalWeights<T>{fields, count32(n), elements<T>(data.x), elements<T>(data.dy), data.add, data.dw});
    if (data.db == nullptr) return;
    for_each(work.stream, product(geometry.out()) * geometry.out_channels,
             LocalBiases<T>{fields, count32(n), elements<T>(data.dy), data.db});
  });
}

void local_update(const Work& work, const ConvGeometry& geometry, const LocalUpdateData& data) {
  const Index n = data.first.x.shape.n;
  const Fields fields(work.storage, geometry, n);
  const auto data_of = [](Span values) { return values.empty() ? nullptr : values.data(); };
  const UntiedWeights& weights = data.weights;
  with_element(work.storage, [&]<class T>(T) {
    const auto gradient = [&](const GradientProduct& of) {
      return LocalWeights<T>{fields, count32(n), elements<T>(of.x.data.data()), elements<T>(of.dy.data.data()),
                             false,  nullptr};
    };
    const GradientProduct& second = data.second != nullptr ? *data.second : data.first;
    for_each(work.stream, product(geometry.out()) * geometry.weights(),
             LocalUpdate<T>{gradient(data.first), gradient(second), data.second != nullptr, data.step, weights.w.data(),
                            data_of(weights.w_velocity)});
    if (weights.b.empty()) return;
    for_each(work.stream, product(geometry.out()) * geometry.out_channels,
             LocalBiasUpdate<T>{{fields, count32(n), elements<T>(data.first.dy.data.data()), nullptr},
                                data.step,
                                weights.b.data(),
                                data_of(weights.b_velocity)});
  });
}

void add_sparsity(const Work& work, const SparsityWork& sparsity, const Shape& shape, const void* x, void* dx) {
  const Index groups = shape.channels / sparsity.settings.pooled;
  with_element(work.storage, [&]<class T>(T) {
    for_each(work.stream, shape.n * product(shape.spatial) * groups,
             AddSparsity<T>{sparsity.settings, count32(groups),
                            static_cast<std::size_t>(work.storage.channels(shape.channels)), sparsity.step,
                            elements<T>(x), elements<T>(dx)});
  });
}

void scale_rows(cudaStream_t stream, Span w, Index count, float length) {
  for_each(stream, std::ssize(w) / count, ScaleRows{static_cast<std::size_t>(count), length, w.data()});
}

}  // namespace mrmf::cuda
