// The direct kernels and Winograd's of one instruction set. The including file defines VECTOR_LANES and DIRECT_TILE.

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

const KernelSet kernel_set{plain::kernels, winograd::kernels, winograd_planes::kernels};

}  // namespace
}  // namespace mrmf::cpu::direct
