// The loops of batch norm for any x86-64 (SSE2). See norm_loops.inl.
#include "kernels/onednn/vector_kernels.hpp"

#define VECTOR_LANES 4

#include "kernels/onednn/norm_loops.inl"

namespace mrmf::norm_loops {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::norm_loops
