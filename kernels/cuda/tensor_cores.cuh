// Kernels that are written for a block of threads with shared memory and tensor cores. A kernel is a functor: with nvcc
// its operator() is a block's work, and in any other build emulate() does the same for all blocks in plain loops.
#pragma once

#include <cstdint>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch.cuh"

namespace mrmf::cuda {

#ifdef __CUDACC__

template <class F>
__global__ void __launch_bounds__(F::threads, F::blocks_at_once) block_kernel(F f) {
  extern __shared__ uint4 shared[];
  f(shared);
}

#endif

/// F::threads threads in each of `blocks` blocks, with F::shared_bytes bytes of shared memory. F::blocks_at_once blocks
/// are to fit on a multiprocessor.
template <class F>
void launch_blocks(cudaStream_t stream, std::uint32_t blocks, const F& f) {
#ifdef __CUDACC__
  MRMF_CUDA(cudaFuncSetAttribute(block_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, F::shared_bytes));
  block_kernel<F><<<blocks, F::threads, F::shared_bytes, stream>>>(f);
#else
  (void)blocks;
  emulated_launch(stream, [f] { f.emulate(); });
#endif
  check_launch();
}

/// A float32 as tensor cores take it in tf32: to 10 bits, ties away from zero, as the device's instruction rounds.
MRMF_HD inline std::uint32_t tf32_bits(float x) {
#ifdef __CUDA_ARCH__
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return x - x == 0 ? (bits + 0x1000U) & ~0x1FFFU : bits;
#endif
}

#ifdef __CUDACC__

// What a warp or a block does together. Fragments are those of PTX's mma.m16n8k16 (bf16) and mma.m16n8k8 (tf32).

/// 16 bytes from global to shared memory, zeros where !inside. Several are one group from commit to commit.
__device__ inline void copy_async(void* to, const void* from, bool inside) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `Left` groups of this thread's copies are under way.
template <int Left>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/// Four matrices of 8 x 8 halves, of which lane 8 m + r names row r of matrix m.
__device__ inline void load_matrices(const void* row, std::uint32_t (&a)[4]) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed.
__device__ inline void load_transposed(const void* row, std::uint32_t (&a)[4]) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(address)
               : "memory");
}

/// sum += a b, of 16 x 8 results.
__device__ inline void multiply(Bf16, float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply(float, float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

}  // namespace mrmf::cuda
