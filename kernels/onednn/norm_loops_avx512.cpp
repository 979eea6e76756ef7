// The loops of batch norm for AVX-512. See norm_loops.inl.
#include "kernels/onednn/vector_kernels.hpp"

#define VECTOR_LANES 16

#include "kernels/onednn/norm_loops.inl"

namespace mrmf::norm_loops {
const Kernels* avx512_kernels() { return &kernels; }
}  // namespace mrmf::norm_loops
