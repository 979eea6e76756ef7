// Max and average pooling, nearest and linear upsampling, and their gradients.
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {

// Max and average pooling, and their gradients.

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

// Upsampling, of the nearest position or linear between positions, and its gradient.

namespace {

/// A sample's positions on both sides; rows count them over all samples, last axis fastest.
struct Grid {
  UpsampleKind kind;
  std::uint32_t in[3], factor[3];
  Divider by_in[3], by_factor[3];

  explicit Grid(const UpsampleGeometry& g) : kind(g.kind) {
    for (int a = 0; a < 3; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      in[a] = count32(g.in[axis]), factor[a] = count32(g.factor[axis]);
      by_in[a] = Divider(g.in[axis]), by_factor[a] = Divider(g.factor[axis]);
    }
  }

  MRMF_HD std::uint32_t in_row(std::uint32_t sample, Index i, Index j, Index k) const {
    return ((sample * in[0] + static_cast<std::uint32_t>(i)) * in[1] + static_cast<std::uint32_t>(j)) * in[2] +
           static_cast<std::uint32_t>(k);
  }
  MRMF_HD std::uint32_t out_row(std::uint32_t sample, Index i, Index j, Index k) const {
    return ((sample * in[0] * factor[0] + static_cast<std::uint32_t>(i)) * in[1] * factor[1] +
            static_cast<std::uint32_t>(j)) *
               in[2] * factor[2] +
           static_cast<std::uint32_t>(k);
  }

  /// use(input row, weight) for all that an output row reads.
  template <class Use>
  MRMF_HD void for_each_source(std::uint32_t row, Use use) const {
    Index low[3], high[3];
    float weight[3];
    for (int a = 2; a >= 0; --a) {
      const std::uint32_t offset = by_factor[a].take(row), block = by_in[a].take(row);
      const Between b(kind, block, offset, factor[a], in[a]);
      low[a] = b.low, high[a] = b.high, weight[a] = b.weight;
    }
    for (std::uint32_t corner = 0; corner < 8; ++corner) {
      float share = 1;
      Index at[3];
      for (int a = 0; a < 3; ++a) {
        const bool second = (corner >> a & 1U) != 0;
        at[a] = second ? high[a] : low[a];
        share *= second ? weight[a] : 1 - weight[a];
      }
      if (share > 0) use(in_row(row, at[0], at[1], at[2]), share);
    }
  }

  /// use(output row, weight) for all that read an input row.
  template <class Use>
  MRMF_HD void for_each_target(std::uint32_t row, Use use) const {
    Index at[3];
    for (int a = 2; a >= 0; --a) at[a] = by_in[a].take(row);
    for_each_reader(kind, at[0], factor[0], in[0], [&](Index i, float of_i) {
      for_each_reader(kind, at[1], factor[1], in[1], [&](Index j, float of_j) {
        for_each_reader(kind, at[2], factor[2], in[2],
                        [&](Index k, float of_k) { use(out_row(row, i, j, k), of_i * of_j * of_k); });
      });
    });
  }
};

enum class UpsamplePass { forward, backward };

/// Per element of `to`, which is y or dx: the weighted sum of up to eight of x, or of all of dy that it went to, mostly
/// from the caches.
template <class T, UpsamplePass pass>
struct WeightedSum {
  Grid grid;
  std::size_t vectors;
  const T* from;
  T* to;

  MRMF_HD auto at(std::uint32_t vector) const {
    return [f = *this, vector](std::uint32_t row) {
      float sum[width<T>] = {};
      const auto add = [&](std::uint32_t source, float weight) {
        float value[width<T>];
        load_constant(f.from, source * f.vectors + vector, value);
        for (int i = 0; i < width<T>; ++i) sum[i] += weight * value[i];
      };
      if constexpr (pass == UpsamplePass::forward)
        f.grid.for_each_source(row, add);
      else
        f.grid.for_each_target(row, add);
      store(sum, f.to, row * f.vectors + vector);
    };
  }
};

}  // namespace

void upsample_forward(const Work& work, const UpsampleGeometry& geometry, Index n, const void* x, void* y) {
  const Index vectors = work.storage.vectors(geometry.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, n * product(geometry.out()), vectors,
                 WeightedSum<T, UpsamplePass::forward>{Grid(geometry), static_cast<std::size_t>(vectors),
                                                       elements<T>(x), elements<T>(y)});
  });
}

void upsample_backward(const Work& work, const UpsampleGeometry& geometry, Index n, const void* dy, void* dx) {
  const Index vectors = work.storage.vectors(geometry.channels);
  with_element(work.storage, [&]<class T>(T) {
    for_each_row(work.stream, n * product(geometry.in), vectors,
                 WeightedSum<T, UpsamplePass::backward>{Grid(geometry), static_cast<std::size_t>(vectors),
                                                        elements<T>(dy), elements<T>(dx)});
  });
}

}  // namespace mrmf::cuda
