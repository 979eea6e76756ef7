#include "kernels/cuda/sums.hpp"

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/storage.cuh"

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

}  // namespace

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

}  // namespace mrmf::cuda
