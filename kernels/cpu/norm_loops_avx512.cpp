// The loops of batch norm for AVX-512. See norm_loops.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16

#include "kernels/cpu/norm_loops.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops
