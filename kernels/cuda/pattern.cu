#include "kernels/cuda/pattern.hpp"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/storage.cuh"

namespace mrmf::cuda {
namespace {

/// Writes 16 bytes.
template <class T>
struct FillPattern {
  std::uint32_t seed;
  T* x;
  MRMF_HD void operator()(std::uint32_t vector) const {
    float values[width<T>];
    const std::uint64_t first = std::uint64_t{vector} * width<T>;
    for (int w = 0; w < width<T>; ++w) values[w] = pattern_value(seed, first + static_cast<std::uint64_t>(w));
    store(values, x, vector);
  }
};

}  // namespace

void fill_pattern(const Work& work, std::uint32_t seed, Index count, void* x) {
  with_element(work.storage, [&](auto element) {
    using T = decltype(element);
    for_each(work.stream, count / width<T>, FillPattern<T>{seed, elements<T>(x)});
  });
}

}  // namespace mrmf::cuda
