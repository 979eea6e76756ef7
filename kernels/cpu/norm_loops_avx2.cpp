// The loops of batch norm for AVX2 with FMA. See norm_loops.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 8

#include "kernels/cpu/norm_loops.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops
