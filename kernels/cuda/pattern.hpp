// Known values for trying plans: a function of the place alone, so that the host can work out any element of a result
// without seeing the tensors.
#pragma once

#include "kernels/cuda/work.hpp"
#include "kernels/host_device.hpp"

namespace mrmf::cuda {

/// One of -7/8, -6/8 ... 7/8: exact in every storage type, and sums of products of two such values are exact in float32
/// up to 2^18.
MRMF_HD inline float pattern_value(std::uint32_t seed, std::uint64_t i) {
  std::uint64_t h = (i + 1) * 0x9E3779B97F4A7C15ULL + seed * 0xD1B54A32D192ED03ULL;
  h = (h ^ (h >> 32)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<float>(static_cast<int>((h >> 40) % 15) - 7) * 0.125F;
}

/// x[i] = pattern_value(seed, i) for `count` elements (a multiple of storage.pad) of the storage type.
void fill_pattern(const Work& work, std::uint32_t seed, Index count, void* x);

}  // namespace mrmf::cuda
