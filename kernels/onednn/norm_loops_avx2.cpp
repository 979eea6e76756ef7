// The loops of batch norm for AVX2 with FMA. See norm_loops.inl.
#include "kernels/onednn/vector_kernels.hpp"

#define VECTOR_LANES 8

#include "kernels/onednn/norm_loops.inl"

namespace mrmf::norm_loops {
const Kernels* avx2_kernels() { return &kernels; }
}  // namespace mrmf::norm_loops
