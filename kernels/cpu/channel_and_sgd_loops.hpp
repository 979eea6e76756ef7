// Loops that several kernels share: over the channels of a position, and the step of SGD.
#pragma once

#include <cstdint>

#include "kernels/formulas.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cpu {

// Loops over the channels of a position, which lie side by side: eight at a time, and then what is left. As plain
// loops, over a number of channels that is known only when the program runs, copying and pooling took up to eight times
// as long with 16 channels.

inline constexpr Index kChannelsTogether = 8;

// Instruction sets with shorter vectors take two for each.
typedef float EightFloats __attribute__((vector_size(4 * kChannelsTogether), aligned(4), may_alias));
typedef double EightDoubles __attribute__((vector_size(8 * kChannelsTogether), aligned(8), may_alias));
typedef std::int32_t EightInts __attribute__((vector_size(4 * kChannelsTogether)));
typedef std::uint8_t EightBytes __attribute__((vector_size(kChannelsTogether), aligned(1), may_alias));

// By reference: how a vector is passed depends on the instruction set.
inline const EightFloats& eight(const float* p) { return *reinterpret_cast<const EightFloats*>(p); }
inline EightFloats& eight(float* p) { return *reinterpret_cast<EightFloats*>(p); }

/// Calls together(first channel) for whole groups, and one(channel) for each channel that is left.
template <class Together, class One>
inline void for_channels(Index channels, const Together& together, const One& one) {
  Index c = 0;
  for (; c + kChannelsTogether <= channels; c += kChannelsTogether) together(c);
  for (; c < channels; ++c) one(c);
}

// The step of SGD as a loop that vectorised() compiles for each instruction set: over an arena, or over the weights of
// a position whose gradient was just made.

/// velocity may be null where there is no momentum.
inline void sgd_range(const SgdStep& step, float* __restrict w, const float* __restrict dw, float* __restrict velocity,
                      Index count) {
  const SgdStep s = step;
  if (velocity == nullptr)
    for (Index i = 0; i < count; ++i) sgd_update(s, w[i], dw[i]);
  else
    for (Index i = 0; i < count; ++i) sgd_update(s, w[i], dw[i], velocity[i]);
}

}  // namespace mrmf::cpu
