// The direct kernels and Winograd's for AVX-512. See direct_conv.inl and winograd.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 16
#define DIRECT_TILE 12

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

const Kernels* avx512_kernels() { return &plain::kernels; }
const Kernels* avx512_winograd_kernels() { return &winograd::kernels; }
const Kernels* avx512_winograd_planes_kernels() { return &winograd_planes::kernels; }

}  // namespace mrmf::cpu::direct
