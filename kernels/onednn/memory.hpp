// Memory of the oneDNN backend.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>

#include "kernels/backend.hpp"

namespace mrmf::onednn {

/// Zeroed, 64-byte aligned floats.
inline Arena make_arena(Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
  auto* data = static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
  if (data == nullptr) throw std::bad_alloc();
    // The thread that first writes a page decides which memory it lies in: share the pages out as the loops do.
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < floats; ++i) data[i] = 0.0F;
  return {data, floats, +[](float* p) { std::free(p); }};
}

}  // namespace mrmf::onednn
