// Max and average pooling, and their gradients.
#include "kernels/cuda/kernels.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/windows.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
namespace {

/// Per element of y: reads its window of x, writes y and a byte.
template <class T>
struct MaxForward {
  Windows<> windows;
  std::size_t vectors;
  const T* x;
  T* y;
  std::uint8_t* winner;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int w = width<T>;
      float best[w] = {};
      Bytes<w> taken;
      f.windows.for_each_tap(row, [&](std::uint32_t tap, std::uint32_t from) {
        float value[w];
        load_constant(f.x, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i)
          if (tap == 0 || takes_maximum(value[i], best[i])) {
            best[i] = value[i];
            taken.set(i, tap);
          }
      });
      store(best, f.y, row * f.vectors + vector);
      taken.store(f.winner, row * f.vectors + vector);
    };
  }
};

/// Per element of y: reads its window of x, writes y.
template <class T>
struct AverageForward {
  Windows<> windows;
  std::size_t vectors;
  float share;
  const T* x;
  T* y;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int w = width<T>;
      float sum[w] = {};
      f.windows.for_each_tap(row, [&](std::uint32_t, std::uint32_t from) {
        float value[w];
        load_constant(f.x, from * f.vectors + vector, value);
        for (int i = 0; i < w; ++i) sum[i] += value[i];
      });
      for (int i = 0; i < w; ++i) sum[i] *= f.share;
      store(sum, f.y, row * f.vectors + vector);
    };
  }
};

/// Per element of dx: reads dy (and the byte) of each window that covers it, mostly from the caches; writes dx.
template <class T>
struct Backward {
  Windows<> windows;
  std::size_t vectors;
  float share;                 // a position's share of an average
  const std::uint8_t* winner;  // null: average
  const T* dy;
  T* dx;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      constexpr int w = width<T>;
      float sum[w] = {};
      f.windows.for_each_cover(row, [&](std::uint32_t tap, std::uint32_t from) {
        float gradient[w];
        load_constant(f.dy, from * f.vectors + vector, gradient);
        if (f.winner == nullptr) {
          for (int i = 0; i < w; ++i) sum[i] += f.share * gradient[i];
          return;
        }
        Bytes<w> taken;
        taken.load(f.winner, from * f.vectors + vector);
        for (int i = 0; i < w; ++i)
          if (taken[i] == tap) sum[i] += gradient[i];
      });
      store(sum, f.dx, row * f.vectors + vector);
    };
  }
};

/// Reads x: sums per sample and channel, which become an element of y each.
template <class T>
struct GlobalAverage {
  static constexpr int unroll = 4;
  Samples samples;
  const T* x;
  T* y;
  double share;

  MRMF_HD auto at(std::uint32_t index) const {
    return [f = *this, column = samples.column(index)](std::uint32_t position, float(&to)[1][width<T>]) {
      float value[width<T>];
      load_constant(f.x, column.at(position), value);
      for (int i = 0; i < width<T>; ++i) to[0][i] += value[i];
    };
  }
  MRMF_HD void finish(Index i, const double (&totals)[1]) const {
    store_element(static_cast<float>(share * totals[0]), y, static_cast<std::size_t>(i));
  }
};

float share_of(const PoolGeometry& g) { return 1.0F / static_cast<float>(product(g.window)); }

}  // namespace

void pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const void* x, void* y,
                  std::uint8_t* winner) {
  const Index vectors = work.storage.vectors(geometry.channels), rows = n * product(geometry.out());
  const auto stride = static_cast<std::size_t>(vectors);
  with_element(work.storage, [&]<class T>(T) {
    if (geometry.kind == PoolKind::max)
      for_each_row(work.stream, rows, vectors,
                   MaxForward<T>{Windows<>(geometry, n), stride, elements<T>(x), elements<T>(y), winner});
    else
      for_each_row(
          work.stream, rows, vectors,
          AverageForward<T>{Windows<>(geometry, n), stride, share_of(geometry), elements<T>(x), elements<T>(y)});
  });
}

std::size_t global_average_bytes(const Storage& storage, const PoolGeometry& geometry, Index n) {
  const Samples samples(product(geometry.in), storage.vectors(geometry.channels));
  const auto of = [&](Index m) { return samples.reduction(m, static_cast<int>(storage.pad), nullptr); };
  return static_cast<std::size_t>(most_partials(n, 1, of)) * sizeof(double);
}

void global_average(const Work& work, const PoolGeometry& geometry, Index n, const void* x, void* y, void* scratch) {
  const Samples samples(product(geometry.in), work.storage.vectors(geometry.channels));
  with_element(work.storage, [&]<class T>(T) {
    reduce<1, width<T>>(
        work.stream, samples.reduction(n, width<T>, static_cast<double*>(scratch)),
        GlobalAverage<T>{samples, elements<T>(x), elements<T>(y), 1.0 / static_cast<double>(product(geometry.in))});
  });
}

void pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const void* dy, const std::uint8_t* winner,
                   void* dx) {
  const Index vectors = work.storage.vectors(geometry.channels), rows = n * product(geometry.in);
  const auto stride = static_cast<std::size_t>(vectors);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, rows, vectors,
                 Backward<T>{Windows<>(geometry, n), stride, share_of(geometry),
                             geometry.kind == PoolKind::max ? winner : nullptr, elements<T>(dy), elements<T>(dx)});
  });
}

}  // namespace mrmf::cuda
