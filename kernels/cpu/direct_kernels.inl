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
using OfRows = winograd::TwoRows;
#include "kernels/cpu/winograd_planes.inl"
}  // namespace winograd_planes
namespace winograd_squares {
using OfRows = winograd::FourRows;
#include "kernels/cpu/winograd_planes.inl"
}  // namespace winograd_squares

const KernelSet kernel_set{plain::kernels, winograd::kernels, winograd_planes::kernels, winograd_squares::kernels};

}  // namespace
}  // namespace mrmf::cpu::direct
