// A convolution's bias: its gradient, its sum alone, and its sum in one pass with max pooling and ReLU.
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// Reads x.
template <class T>
struct Sums {
  static constexpr int unroll = 4;
  std::size_t vectors;
  const T* x;
  float* sums;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row, float(&to)[1][width<T>]) {
      float value[width<T>];
      load(f.x, row * f.vectors + vector, value);
      for (int i = 0; i < width<T>; ++i) to[0][i] += value[i];
    };
  }
  MRMF_HD void finish(Index channel, const double (&totals)[1]) const { sums[channel] = static_cast<float>(totals[0]); }
};

/// Reads and writes y.
template <class T>
struct AddBias {
  std::size_t vectors;
  std::uint32_t channels;
  const float* b;
  T* y;

  struct Body {
    AddBias f;
    std::uint32_t vector;
    float bias[width<T>];

    MRMF_HD void operator()(std::uint32_t row) const {
      float value[width<T>];
      load(f.y, row * f.vectors + vector, value);
      for (int i = 0; i < width<T>; ++i) value[i] += bias[i];
      store(value, f.y, row * f.vectors + vector);
    }
  };
  MRMF_HD Body at(std::uint32_t vector) const {
    Body body{*this, vector, {}};
    load_parameters(b, vector, channels, body.bias);
    return body;
  }
};

}  // namespace

void add_bias(const Work& work, Index rows, Index channels, const float* b, void* y) {
  const Index vectors = work.storage.vectors(channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, rows, vectors,
                 AddBias<T>{static_cast<std::size_t>(vectors), count32(channels), b, elements<T>(y)});
  });
}

void channel_sums(const Work& work, Index rows, Index channels, const void* x, float* sums, void* scratch) {
  const Reduction r{rows, work.storage.vectors(channels), channels, static_cast<double*>(scratch)};
  with_element(work.storage, [&]<class T>(T) {
    reduce<1, width<T>>(work.stream, r, Sums<T>{static_cast<std::size_t>(r.vectors), elements<T>(x), sums});
  });
}

std::size_t channel_sums_bytes(const Storage& storage, Index rows, Index channels) {
  const Reduction r{rows, storage.vectors(channels), channels, nullptr};
  return static_cast<std::size_t>(r.partial_doubles(1)) * sizeof(double);
}

namespace {

/// Per element of p: reads its window of y, writes p and a byte. Rounding is monotonic, so that the maximum of the sums
/// is the sum of the maximum and the bias.
template <class T>
struct Forward {
  Windows<> windows;
  std::size_t vectors;
  std::uint32_t channels;
  const T* y;
  const float* b;
  T* p;
  std::uint8_t* winner;

  struct Body {
    Forward f;
    std::uint32_t vector;
    float bias[width<T>];

    MRMF_HD void operator()(std::uint32_t row) const {
      constexpr int w = width<T>;
      float best[w] = {};
      Bytes<w> taken;
      f.windows.for_each_tap(row, [&](std::uint32_t tap, std::uint32_t from) {
        float value[w];
        load_constant(f.y, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i)
          if (tap == 0 || takes_maximum(value[i], best[i])) {
            best[i] = value[i];
            taken.set(i, tap);
          }
      });
      for (int i = 0; i < w; ++i) best[i] = activation(ActivationKind::relu, 0, best[i] + bias[i]);
      store(best, f.p, row * f.vectors + vector);
      taken.store(f.winner, row * f.vectors + vector);
    }
  };

  MRMF_HD Body at(std::uint32_t vector) const {
    Body body{*this, vector, {}};
    load_parameters(b, vector, channels, body.bias);
    return body;
  }
};

/// Per element of p: reads p, dp and a byte, writes the window of dy (and the positions behind the last window), and
/// adds to db what is passed on: each element of dp reaches one element of dy at most.
template <class T>
struct Backward {
  static constexpr int unroll = 1;
  Windows<> windows;
  std::size_t vectors;
  const T* p;
  const T* dp;
  const std::uint8_t* winner;
  T* dy;
  float* db;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row, float(&sums)[1][width<T>]) {
      constexpr int w = width<T>;
      float output[w], gradient[w];
      Bytes<w> taken;
      load_constant(f.p, row * f.vectors + vector, output);
      load_constant(f.dp, row * f.vectors + vector, gradient);
      taken.load(f.winner, row * f.vectors + vector);
      for (int i = 0; i < w; ++i) {
        gradient[i] = activation_gradient(ActivationKind::relu, 0, output[i], gradient[i]);
        sums[0][i] += gradient[i];
      }
      f.windows.for_each_owned(row, [&](std::uint32_t tap, std::uint32_t to) {
        float value[w];
        for (int i = 0; i < w; ++i) value[i] = taken[i] == tap ? gradient[i] : 0;
        store(value, f.dy, to * f.vectors + vector);
      });
    };
  }
  MRMF_HD void finish(Index channel, const double (&totals)[1]) const { db[channel] = static_cast<float>(totals[0]); }
};

Reduction reduction(const Storage& storage, const PoolGeometry& g, Index n, void* scratch) {
  return {n * product(g.out()), storage.vectors(g.channels), g.channels, static_cast<double*>(scratch)};
}

}  // namespace

void bias_pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolForward& data) {
  const Index vectors = work.storage.vectors(geometry.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, n * product(geometry.out()), vectors,
                 Forward<T>{Windows<>(geometry, n), static_cast<std::size_t>(vectors), count32(geometry.channels),
                            elements<T>(data.y), data.b, elements<T>(data.p), data.winner});
  });
}

void bias_pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolBackward& data) {
  const Reduction r = reduction(work.storage, geometry, n, data.scratch);
  with_element(work.storage, [&]<class T>(T) {
    reduce<1, width<T>>(work.stream, r,
                        Backward<T>{Windows<>(geometry, n), static_cast<std::size_t>(r.vectors), elements<T>(data.p),
                                    elements<T>(data.dp), data.winner, elements<T>(data.dy), data.db});
  });
}

std::size_t bias_pool_bytes(const Storage& storage, const PoolGeometry& geometry, Index n) {
  return static_cast<std::size_t>(reduction(storage, geometry, n, nullptr).partial_doubles(1)) * sizeof(double);
}

}  // namespace mrmf::cuda
