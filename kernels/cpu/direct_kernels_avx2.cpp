// The direct kernels and Winograd's for AVX2 with FMA. See direct_conv.inl and winograd.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 8
#define DIRECT_TILE 6

namespace mrmf::cpu::direct {

namespace {
namespace plain {
#include "kernels/cpu/direct_conv.inl"
}
namespace winograd {
#include "kernels/cpu/winograd.inl"
}
namespace winograd_planes {
#include "kernels/cpu/winograd_planes.inl"
}
}  // namespace

const Kernels* avx2_kernels() { return &plain::kernels; }
const Kernels* avx2_winograd_kernels() { return &winograd::kernels; }
const Kernels* avx2_winograd_planes_kernels() { return &winograd_planes::kernels; }

}  // namespace mrmf::cpu::direct
