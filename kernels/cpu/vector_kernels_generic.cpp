// The fused kernel, the loops of batch norm, the products of locally connected layers and the direct kernels for what
// every processor of the architecture has: SSE2, or on ARM Neon. See conv_pool_relu.inl, batch_norm.inl,
// locally_connected.inl and direct_kernels.inl.
#include "kernels/cpu/vector_kernels.hpp"

#define VECTOR_LANES 4
#ifdef __aarch64__
#define FUSED_REGISTERS 32
#else
#define FUSED_REGISTERS 16
#endif

namespace mrmf::cpu::fused {
namespace {
typedef float FloatLanes __attribute__((vector_size(4 * VECTOR_LANES)));
typedef int IntLanes __attribute__((vector_size(4 * VECTOR_LANES)));

// Appends the lanes of `value` where mask is set, with their indices first, first + 1, ...; returns their number. May
// write a whole vector.
inline int fused_compress(IntLanes mask, FloatLanes value, int first, float* values, int* indices) {
  int count = 0;
  for (int lane = 0; lane < VECTOR_LANES; ++lane) {
    values[count] = value[lane];
    indices[count] = first + lane;
    count -= mask[lane];
  }
  return count;
}

// Each lane's choice of one of four floats.
inline FloatLanes fused_select(const float* four, IntLanes choice) {
  return FloatLanes{four[choice[0]], four[choice[1]], four[choice[2]], four[choice[3]]};
}
}  // namespace
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/conv_pool_relu.inl"

namespace mrmf::cpu::fused {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::fused

#include "kernels/cpu/batch_norm.inl"

namespace mrmf::cpu::norm_loops {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::local {
namespace {
typedef float FloatLanes __attribute__((vector_size(4 * VECTOR_LANES)));

// The first `count` floats, and zeros.
inline FloatLanes load_some(const float* from, long count) {
  FloatLanes value{};
  for (long lane = 0; lane < count; ++lane) value[lane] = from[lane];
  return value;
}
inline void store_some(float* to, long count, FloatLanes value) {
  for (long lane = 0; lane < count; ++lane) to[lane] = value[lane];
}
inline FloatLanes sums_of_four(FloatLanes a, FloatLanes b, FloatLanes c, FloatLanes d) {
  FloatLanes sums{};
  for (int lane = 0; lane < VECTOR_LANES; ++lane) sums += FloatLanes{a[lane], b[lane], c[lane], d[lane]};
  return sums;
}
}  // namespace
}  // namespace mrmf::cpu::local

#include "kernels/cpu/locally_connected.inl"

namespace mrmf::cpu::local {
const Kernels* generic_kernels() { return &kernels; }
}  // namespace mrmf::cpu::local

#include "kernels/cpu/fma_loop.inl"

namespace mrmf::cpu::fma {
const Loop* generic_loop() { return &loop; }
}  // namespace mrmf::cpu::fma

#ifdef __aarch64__
#define DIRECT_TILE 12  // twice as many registers
#else
#define DIRECT_TILE 6
#endif

#include "kernels/cpu/direct_kernels.inl"

namespace mrmf::cpu::direct {
const KernelSet& generic_kernels() { return kernel_set; }
}  // namespace mrmf::cpu::direct

#ifndef __x86_64__
// Other processors have one instruction set, `generic`, so nobody calls these.

namespace mrmf::cpu::fused {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
const Kernels* avx512bf16_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::fused

namespace mrmf::cpu::direct {
const KernelSet& avx2_kernels() { return generic_kernels(); }
const KernelSet& avx512_kernels() { return generic_kernels(); }
const AmxKernels& amx_kernels() {
  static const AmxKernels none{generic_kernels().plain, generic_kernels().plain, generic_kernels().plain};
  return none;
}
const bool sixteen_lanes_need_avx512 = true;
}  // namespace mrmf::cpu::direct

namespace mrmf::cpu::norm_loops {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::norm_loops

namespace mrmf::cpu::local {
const Kernels* avx2_kernels() { return generic_kernels(); }
const Kernels* avx512_kernels() { return generic_kernels(); }
}  // namespace mrmf::cpu::local

namespace mrmf::cpu::fma {
const Loop* avx2_loop() { return generic_loop(); }
const Loop* avx512_loop() { return generic_loop(); }
}  // namespace mrmf::cpu::fma
#endif
