// Launches of kernels that are plain functors, and their index arithmetic; and deterministic sums over rows. With nvcc
// kernels are __global__ functions, in any other build the device emulator of the tests runs the same functors in host
// loops; no other file of ours tells these two apart.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/cuda/kernels.hpp"
#include "kernels/tensor.hpp"

#ifdef __CUDACC__
#include "kernels/cuda/runtime.hpp"
#else
#include "kernels/cuda/launch_emulated.hpp"
#endif

namespace mrmf::cuda {

// Launches of kernels that are plain functors, and their index arithmetic. With nvcc kernels are __global__ functions,
// in any other build the device emulator of the tests runs the same functors in host loops; no other file of ours tells
// these two apart.

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

// Deterministic sums over rows, per channel, or over the positions of each sample: the same order of additions in every
// run, on every device and in the emulator. A thread adds up to eight rows in float32 and then in double; the threads
// of a block are added by a tree; the blocks by a second launch of one block per channel (by the first where one block
// did all).
#ifdef __CUDA_ARCH__
#define MRMF_PRAGMA(text) _Pragma(#text)
#define MRMF_UNROLL(times) MRMF_PRAGMA(unroll times)
#else
#define MRMF_UNROLL(times)
#endif

namespace mrmf::cuda {

inline constexpr std::uint32_t float_rows = 8;        // rows added in float32
inline constexpr std::uint32_t finish_threads = 128;  // threads of a block in the second launch
inline constexpr Index reduce_blocks = 8 * multiprocessors;

/// Sums over `rows` rows of `vectors` vectors, of which the first `channels` elements count.
struct Reduction {
  Index rows = 0, vectors = 0, channels = 0;
  double* partials = nullptr;  ///< partial_doubles() of device memory

  Tiles tiles() const { return make_tiles(rows, vectors, float_rows, reduce_blocks); }
  /// Grows with the rows: what the largest number of rows needs serves fewer.
  Index partial_doubles(int sums) const { return tiles().blocks * sums * channels; }
};

/// Halves the number of groups to add: group g < left - half gets group g + half, until one is left.
MRMF_HD inline std::uint32_t half_of(std::uint32_t left) { return (left + 1) / 2; }

/// What a few rows are added in: F::Partial, or float.
template <class F, class = void>
struct PartialOf {
  using type = float;
};
template <class F>
struct PartialOf<F, std::void_t<typename F::Partial>> {
  using type = typename F::Partial;
};

/// One thread's sums over its rows.
template <int K, int W, class F>
MRMF_HD void add_rows(const Tiles& tiles, std::uint32_t first, std::uint32_t vector, const F& f,
                      double (&sums)[K * W]) {
  for (double& sum : sums) sum = 0;
  if (vector >= tiles.vectors) return;
  const auto body = f.at(vector);
  const std::uint32_t stride = tiles.stride();
  using Partial = typename PartialOf<F>::type;
  const auto keep = [&](const Partial(&part)[K][W]) {
    for (int k = 0; k < K; ++k)
      for (int w = 0; w < W; ++w) sums[k * W + w] += part[k][w];
  };
  std::uint32_t row = first;
  for (; row + (float_rows - 1) * stride < tiles.rows; row += float_rows * stride) {
    Partial part[K][W] = {};
    MRMF_UNROLL(F::unroll)
    for (std::uint32_t i = 0; i < float_rows; ++i) body(row + i * stride, part);
    keep(part);
  }
  Partial part[K][W] = {};
  for (; row < tiles.rows; row += stride) body(row, part);
  keep(part);
}

/// Hands a block's sums of one vector on: to the second launch, or to f.finish where there is one block alone.
template <int K, int W, class F>
MRMF_HD void hand_on(const Reduction& r, const Tiles& tiles, std::uint32_t block, std::uint32_t vector,
                     const double (&sums)[K * W], const F& f) {
  for (int w = 0; w < W; ++w) {
    const Index channel = Index{vector} * W + w;
    if (channel >= r.channels) continue;
    double totals[K];
    for (int k = 0; k < K; ++k) totals[k] = sums[k * W + w];
    if (tiles.blocks == 1)
      f.finish(channel, totals);
    else
      for (int k = 0; k < K; ++k) r.partials[(k * r.channels + channel) * tiles.blocks + block] = totals[k];
  }
}

/// One thread's share of the blocks' sums of a channel.
template <int K>
MRMF_HD void add_blocks(const Reduction& r, const Tiles& tiles, Index channel, std::uint32_t thread,
                        double (&totals)[K]) {
  for (int k = 0; k < K; ++k) {
    const double* const partials = r.partials + (k * r.channels + channel) * tiles.blocks;
    totals[k] = 0;
    for (std::uint32_t block = thread; block < tiles.blocks; block += finish_threads) totals[k] += partials[block];
  }
}

#ifdef __CUDACC__

/// Adds the groups' values; group 0 has the result. `shared` holds N doubles for every thread of half the groups.
template <int N>
__device__ void add_groups(double (&values)[N], double* shared, std::uint32_t lanes, std::uint32_t groups) {
  const std::uint32_t group = threadIdx.x / lanes, slots = (groups / 2) * lanes;
  for (std::uint32_t left = groups; left > 1; left = half_of(left)) {
    const std::uint32_t half = half_of(left);
    if (group >= half && group < left)
      for (int i = 0; i < N; ++i) shared[i * slots + threadIdx.x - half * lanes] = values[i];
    __syncthreads();
    if (group < left - half)
      for (int i = 0; i < N; ++i) values[i] += shared[i * slots + threadIdx.x];
    __syncthreads();
  }
}

template <int K, int W, class F>
__global__ void __launch_bounds__(block_threads, 2) reduce_kernel(Reduction r, Tiles tiles, F f) {
  __shared__ double shared[K * W * block_threads / 2];
  const std::uint32_t group = threadIdx.x / tiles.lanes;
  const std::uint32_t vector = blockIdx.y * tiles.lanes + threadIdx.x % tiles.lanes;
  double sums[K * W];
  add_rows<K, W>(tiles, blockIdx.x * tiles.groups + group, vector, f, sums);
  add_groups(sums, shared, tiles.lanes, tiles.groups);
  if (group == 0 && vector < tiles.vectors) hand_on<K, W>(r, tiles, blockIdx.x, vector, sums, f);
}

template <int K, class F>
__global__ void __launch_bounds__(finish_threads) finish_kernel(Reduction r, Tiles tiles, F f) {
  __shared__ double shared[K * finish_threads / 2];
  double totals[K];
  add_blocks(r, tiles, blockIdx.x, threadIdx.x, totals);
  add_groups(totals, shared, 1, finish_threads);
  if (threadIdx.x == 0) f.finish(blockIdx.x, totals);
}

#else

/// values[group * lanes + lane]: adds the groups in the order of the device's tree.
template <int N>
void add_groups(std::vector<std::array<double, N>>& values, std::uint32_t lanes, std::uint32_t groups) {
  for (std::uint32_t left = groups; left > 1; left = half_of(left))
    for (std::uint32_t thread = 0; thread < (left - half_of(left)) * lanes; ++thread)
      for (int i = 0; i < N; ++i) values[thread][i] += values[thread + half_of(left) * lanes][i];
}

template <int K, int W, class F>
void emulated_reduce(const Reduction& r, const Tiles& tiles, const F& f) {
  std::vector<std::array<double, K * W>> sums(tiles.threads());
  for (std::uint32_t chunk = 0; chunk < tiles.chunks; ++chunk)
    for (std::uint32_t block = 0; block < tiles.blocks; ++block) {
      double values[K * W];
      for (std::uint32_t thread = 0; thread < tiles.threads(); ++thread) {
        add_rows<K, W>(tiles, block * tiles.groups + thread / tiles.lanes, chunk * tiles.lanes + thread % tiles.lanes,
                       f, values);
        std::copy_n(values, K * W, sums[thread].begin());
      }
      add_groups<K * W>(sums, tiles.lanes, tiles.groups);
      for (std::uint32_t lane = 0; lane < tiles.lanes && chunk * tiles.lanes + lane < tiles.vectors; ++lane) {
        std::copy_n(sums[lane].begin(), K * W, values);
        hand_on<K, W>(r, tiles, block, chunk * tiles.lanes + lane, values, f);
      }
    }
}

template <int K, class F>
void emulated_finish(const Reduction& r, const Tiles& tiles, const F& f) {
  std::vector<std::array<double, K>> totals(finish_threads);
  for (Index channel = 0; channel < r.channels; ++channel) {
    double values[K];
    for (std::uint32_t thread = 0; thread < finish_threads; ++thread) {
      add_blocks(r, tiles, channel, thread, values);
      std::copy_n(values, K, totals[thread].begin());
    }
    add_groups<K>(totals, 1, finish_threads);
    std::copy_n(totals[0].begin(), K, values);
    f.finish(channel, values);
  }
}

#endif

/// K sums per channel, W channels to a vector. f.at(vector)(row, sums) adds a row's values to float sums[K][W], or to
/// those of F::Partial (it may write memory besides); F::unroll says how many rows' loads are to be in flight;
/// f.finish(channel, totals) then gets double totals[K], also when there are no rows.
template <int K, int W, class F>
void reduce(cudaStream_t stream, const Reduction& r, F f) {
  const Tiles tiles = r.tiles();
#ifdef __CUDACC__
  reduce_kernel<K, W><<<dim3(tiles.blocks, tiles.chunks), tiles.threads(), 0, stream>>>(r, tiles, f);
  check_launch();
  if (tiles.blocks == 1) return;
  finish_kernel<K><<<count32(r.channels), finish_threads, 0, stream>>>(r, tiles, f);
#else
  emulated_launch(stream, [=] { emulated_reduce<K, W>(r, tiles, f); });
  check_launch();
  if (tiles.blocks == 1) return;
  emulated_launch(stream, [=] { emulated_finish<K>(r, tiles, f); });
#endif
  check_launch();
}

// Sums over the positions of each sample: for kernels whose "vectors" are those of all samples, sample by sample, and
// whose rows are the positions. So a sample's positions are shared out over blocks however few samples there are.

/// Doubles of partial sums that any number of samples up to n needs; more samples may need fewer. of(n): the reduction.
template <class Of>
Index most_partials(Index n, int sums, const Of& of) {
  Index most = 0;
  for (Index m = 1; m <= n; ++m) most = std::max(most, of(m).partial_doubles(sums));
  return most;
}

struct Samples {
  Divider by_vectors;              // divides by the vectors of a position
  std::size_t positions, vectors;  // positions of a sample, vectors of a position

  Samples(Index sample_positions, Index of_position)
      : by_vectors(of_position),
        positions(static_cast<std::size_t>(sample_positions)),
        vectors(static_cast<std::size_t>(of_position)) {}

  /// A sample and one of its vectors of channels.
  struct Column {
    std::uint32_t sample, vector;
    std::size_t first, stride;

    /// The vector's number in memory at a position.
    MRMF_HD std::size_t at(std::uint32_t position) const { return first + position * stride; }
  };
  MRMF_HD Column column(std::uint32_t index) const {
    std::uint32_t sample = index;
    const std::uint32_t vector = by_vectors.take(sample);
    return {sample, vector, sample * positions * vectors + vector, vectors};
  }

  /// K sums per sample and stored channel: finish() gets (sample * vectors + vector) * width + lane.
  Reduction reduction(Index n, int width, double* partials) const {
    const Index columns = n * static_cast<Index>(vectors);
    return {static_cast<Index>(positions), columns, columns * width, partials};
  }
};

}  // namespace mrmf::cuda
