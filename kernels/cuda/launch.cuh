// Launches of kernels that are plain functors, and their index arithmetic. With nvcc kernels are __global__ functions,
// in any other build the device emulator of the tests runs the same functors in host loops; no other file of ours tells
// these two apart.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cuda/kernels.hpp"
#include "kernels/tensor.hpp"

#ifdef __CUDACC__
#include "kernels/cuda/runtime.hpp"
#else
#include "kernels/cuda/launch_emulated.hpp"
#endif

namespace mrmf::cuda {

/// A count that kernels handle in 32 bits (addresses are computed in 64). In vectors of 16 bytes, 2^31 are 32 GiB.
inline std::uint32_t count32(Index n) {
  MRMF_CHECK(n >= 0 && n < (Index{1} << 31),
             "a tensor of " + std::to_string(n) + " rows or vectors is too large for one launch; use a smaller batch");
  return static_cast<std::uint32_t>(n);
}

/// Quotients of numbers below 2^31 by a multiplication and a shift (Granlund & Montgomery 1994): with
/// 2^(s-1) < d <= 2^s and m = ceil(2^(31+s) / d), n m / 2^(31+s) exceeds n / d by less than 1 / d.
class Divider {
 public:
  Divider() = default;
  explicit Divider(Index divisor) : divisor_(count32(divisor)) {
    MRMF_CHECK(divisor > 0, "division by zero");
    shift_ = 31U + static_cast<std::uint32_t>(std::bit_width(divisor_ - 1));
    magic_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + divisor_ - 1) / divisor_);
  }

  MRMF_HD std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>((std::uint64_t{n} * magic_) >> shift_);
  }
  /// The remainder of n, which becomes the quotient: takes the fastest coordinate off a position.
  MRMF_HD std::uint32_t take(std::uint32_t& n) const {
    const std::uint32_t q = quotient(n);
    const std::uint32_t remainder = n - q * divisor_;
    n = q;
    return remainder;
  }

 private:
  std::uint32_t divisor_ = 1, magic_ = 0x80000000U, shift_ = 31;
};

inline constexpr std::uint32_t block_threads = 256;

/// The devices that launches are sized for: an H100 or H200 has so many multiprocessors. Others share the same blocks
/// out among theirs, because what is summed where must not depend on the device.
inline constexpr Index multiprocessors = 132;

/// How the threads of a launch share a matrix of rows x vectors (positions x channels). A thread keeps one vector of
/// channels and visits every stride()-th row, so what belongs to the channels stays in its registers; neighbouring
/// threads have neighbouring vectors, then neighbouring rows, so that accesses are coalesced.
struct Tiles {
  std::uint32_t rows = 0, vectors = 0;
  std::uint32_t lanes = 1;   ///< vectors in a block
  std::uint32_t groups = 1;  ///< rows in a block at a time
  std::uint32_t chunks = 1;  ///< blocks beside one another that share a row's vectors
  std::uint32_t blocks = 1;  ///< along the rows

  MRMF_HD std::uint32_t stride() const { return blocks * groups; }
  std::uint32_t threads() const { return lanes * groups; }
};

/// At least rows_per_thread rows to a thread, and at most max_blocks blocks. A function of the shape alone, never of
/// the device: sums must not depend on it.
inline Tiles make_tiles(Index rows, Index vectors, Index rows_per_thread, Index max_blocks) {
  const auto parts = [](Index n, Index size) { return std::max<Index>(1, (n + size - 1) / size); };
  const Index chunks = parts(vectors, block_threads);
  const Index lanes = parts(vectors, chunks);
  const Index groups = block_threads / lanes;
  const Index blocks = std::min(parts(rows, groups * rows_per_thread), parts(max_blocks, chunks));
  return {count32(rows), count32(vectors), count32(lanes), count32(groups), count32(chunks), count32(blocks)};
}

#ifdef __CUDACC__

/// FaultError when the launch before this failed, or an earlier call whose error nobody took.
inline void check_launch() { MRMF_CUDA(cudaGetLastError()); }

template <class F>
__global__ void __launch_bounds__(block_threads) for_each_kernel(std::uint32_t n, F f) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}

template <class F>
__global__ void __launch_bounds__(block_threads) for_each_row_kernel(Tiles tiles, F f) {
  const std::uint32_t vector = blockIdx.y * tiles.lanes + threadIdx.x % tiles.lanes;
  if (vector >= tiles.vectors) return;
  const auto body = f.at(vector);
  const std::uint32_t first = blockIdx.x * tiles.groups + threadIdx.x / tiles.lanes;
  for (std::uint32_t row = first; row < tiles.rows; row += tiles.stride()) body(row);
}

#endif

/// f(i) for every i in [0, n), in no particular order.
template <class F>
void for_each(cudaStream_t stream, Index n, F f) {
  const std::uint32_t count = count32(n);
  if (count == 0) return;
#ifdef __CUDACC__
  const std::uint32_t blocks = std::min((count - 1) / block_threads + 1, 65536U);
  for_each_kernel<<<blocks, block_threads, 0, stream>>>(count, f);
#else
  emulated_launch(stream, [count, f] {
    for (std::uint32_t i = 0; i < count; ++i) f(i);
  });
#endif
  check_launch();
}

/// f.at(vector) gives what treats the rows of that vector of channels: f.at(vector)(row) for every row and vector.
template <class F>
void for_each_row(cudaStream_t stream, Index rows, Index vectors, F f) {
  if (rows == 0 || vectors == 0) return;
  // Small tensors are spread over all multiprocessors before a thread gets a second row.
  const bool small = rows * vectors < Index{8} * multiprocessors * block_threads;
  const Tiles tiles = make_tiles(rows, vectors, small ? 1 : 4, 64 * multiprocessors);
#ifdef __CUDACC__
  for_each_row_kernel<<<dim3(tiles.blocks, tiles.chunks), tiles.threads(), 0, stream>>>(tiles, f);
#else
  emulated_launch(stream, [tiles, f] {
    for (std::uint32_t vector = 0; vector < tiles.vectors; ++vector) {
      const auto body = f.at(vector);
      for (std::uint32_t row = 0; row < tiles.rows; ++row) body(row);
    }
  });
#endif
  check_launch();
}

}  // namespace mrmf::cuda
