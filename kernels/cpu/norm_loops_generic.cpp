// The loops of batch norm for any x86-64 (SSE2). See norm_loops.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 4

#include "kernels/cpu/norm_loops.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops
