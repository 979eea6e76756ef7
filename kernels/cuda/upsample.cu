// Upsampling, of the nearest position or linear between positions, and its gradient.
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/formulas.hpp"

namespace mrmf::cuda {
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
