// Max pooling keeps one byte per output element from forward to backward, in a cache that is measured in floats.
#pragma once

#include "kernels/tensor.hpp"

namespace mrmf {

constexpr Index winner_floats(Index elements) { return (elements + Index{sizeof(float)} - 1) / Index{sizeof(float)}; }

inline std::span<std::uint8_t> winners(Span cache, Index elements) {
  return {reinterpret_cast<std::uint8_t*>(cache.data()), static_cast<std::size_t>(elements)};
}

}  // namespace mrmf
