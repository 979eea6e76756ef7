// What our own kernels for convolutions of 3x3x3 taps share: blocks of threads with shared memory and tensor cores,
// and tiles of output positions, whose inputs lie in shared memory, normalised there if the batch norm of the
// network's input stands in front.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/batch_norm.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {

// Kernels that are written for a block of threads with shared memory and tensor cores. A kernel is a functor: with nvcc
// its operator() is a block's work, and in any other build emulate() does the same for all blocks in plain loops.

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

// What the kernels for convolutions of 3x3x3 taps share: a block computes tiles of I x 8 x 16 output positions, one
// after the other, and has the tile's inputs, of (I + 2) x 10 x 18 positions, in shared memory. A position's channels
// lie there in vectors of 16 bytes, each vector in a plane of its own: rows of the matrices that tensor cores multiply.

inline constexpr int taps = 27;
inline constexpr int tile_j = 8, tile_k = 16;
inline constexpr int halo_j = tile_j + 2, halo_k = tile_k + 2;
inline constexpr int warps = 8, block_of = 32 * warps;

/// Positions of a tile's inputs, and lines of 16 output positions.
constexpr int halo_of(int tile_i) { return (tile_i + 2) * halo_j * halo_k; }
constexpr int lines_of(int tile_i) { return tile_i * tile_j; }

/// A tap's input counted from that of the first tap, in a tile's inputs. What stands behind the last tap, to fill a
/// matrix, reads the last one's and is not used.
MRMF_HD constexpr int offset_of(int tap) {
  if (tap >= taps) tap = taps - 1;
  return ((tap / 9) * halo_j + tap / 3 % 3) * halo_k + tap % 3;
}

struct TileStart {
  std::uint32_t sample;
  int first[3];  // output position of the tile's first
};

/// The tiles of all samples.
struct Tiling {
  int in[3], out[3], pad[3], tile_i;
  Divider by_k, by_j, by_i;
  std::uint32_t count;

  Tiling(const Extent& in_sizes, const Extent& out_sizes, const Extent& pad_before, Index n, int depth)
      : tile_i(depth) {
    const Index sides[3] = {depth, tile_j, tile_k};
    Index along[3], all = n;
    for (std::size_t a = 0; a < 3; ++a) {
      in[a] = static_cast<int>(in_sizes[a]);
      out[a] = static_cast<int>(out_sizes[a]);
      pad[a] = static_cast<int>(pad_before[a]);
      along[a] = (out_sizes[a] + sides[a] - 1) / sides[a];
      all *= along[a];
    }
    by_i = Divider(along[0]), by_j = Divider(along[1]), by_k = Divider(along[2]);
    count = count32(all);
  }
  Tiling(const ConvGeometry& geometry, Index n, int depth)
      : Tiling(geometry.in, geometry.out(), geometry.pad_before, n, depth) {}

  /// Blocks that share the tiles, so many of them on a multiprocessor: a function of the shape alone.
  std::uint32_t blocks(int at_once) const {
    return std::min(count, static_cast<std::uint32_t>(at_once * multiprocessors));
  }
  MRMF_HD TileStart start_of(std::uint32_t tile) const {
    TileStart p{};
    p.first[2] = static_cast<int>(by_k.take(tile)) * tile_k;
    p.first[1] = static_cast<int>(by_j.take(tile)) * tile_j;
    p.first[0] = static_cast<int>(by_i.take(tile)) * tile_i;
    p.sample = tile;
    return p;
  }
  MRMF_HD bool has(int i, int j, int k) const {
    return i >= 0 && i < in[0] && j >= 0 && j < in[1] && k >= 0 && k < in[2];
  }
  MRMF_HD bool has_output(int i, int j, int k) const { return i < out[0] && j < out[1] && k < out[2]; }
  MRMF_HD std::size_t input(std::uint32_t sample, int i, int j, int k) const {
    return ((std::size_t{sample} * in[0] + i) * in[1] + j) * in[2] + k;
  }
  MRMF_HD std::size_t output(std::uint32_t sample, int i, int j, int k) const {
    return ((std::size_t{sample} * out[0] + i) * out[1] + j) * out[2] + k;
  }
#ifdef __CUDACC__
  struct At {
    bool inside;
    std::size_t position;
  };
  /// The input `number` of a tile.
  __device__ At input_of(const TileStart& p, int number) const {
    const int i = p.first[0] - pad[0] + number / (halo_j * halo_k);
    const int j = p.first[1] - pad[1] + number / halo_k % halo_j;
    const int k = p.first[2] - pad[2] + number % halo_k;
    const bool inside = has(i, j, k);
    return {inside, inside ? input(p.sample, i, j, k) : 0};
  }
  /// Output position `number` of a tile, line by line.
  __device__ At output_of(const TileStart& p, int number) const {
    const int line = number / tile_k;
    const int i = p.first[0] + line / tile_j, j = p.first[1] + line % tile_j, k = p.first[2] + number % tile_k;
    const bool inside = has_output(i, j, k);
    return {inside, inside ? output(p.sample, i, j, k) : 0};
  }
#else
  /// Whether the input of a tap at an output position lies inside, so that it is not padding; and where.
  bool inside(int i, int j, int k, int tap) const {
    return has(i + tap / 9 - pad[0], j + tap / 3 % 3 - pad[1], k + tap % 3 - pad[2]);
  }
  std::size_t input_of_tap(std::uint32_t sample, int i, int j, int k, int tap) const {
    return input(sample, i + tap / 9 - pad[0], j + tap / 3 % 3 - pad[1], k + tap % 3 - pad[2]);
  }
  /// use(tile, sample, i, j, k) for every output position.
  template <class Use>
  void for_each_output(Use use) const {
    for (std::uint32_t tile = 0; tile < count; ++tile) {
      const TileStart p = start_of(tile);
      for (int i = p.first[0]; i < p.first[0] + tile_i; ++i)
        for (int j = p.first[1]; j < p.first[1] + tile_j; ++j)
          for (int k = p.first[2]; k < p.first[2] + tile_k; ++k)
            if (has_output(i, j, k)) use(tile, p.sample, i, j, k);
    }
  }
#endif
};

/// Whether a convolution has the taps that all of this is for: 3x3x3 next to each other, without stride.
inline bool has_cube_of_taps(const ConvGeometry& g) {
  return g.kernel == Extent{3, 3, 3} && g.stride == Extent{1, 1, 1} && g.dilation == Extent{1, 1, 1};
}

/// An element of the blocks' parts, of `part` floats each, added in the blocks' order.
MRMF_HD inline float sum_of_parts(const float* parts, std::uint32_t blocks, int part, int at) {
  double total = 0;
  for (std::uint32_t block = 0; block < blocks; ++block) total += parts[std::size_t{block} * part + at];
  return static_cast<float>(total);
}

/// A value as tensor cores take it.
MRMF_HD inline float as_factor(float, float v) { return std::bit_cast<float>(tf32_bits(v)); }
MRMF_HD inline float as_factor(Bf16, float v) { return std::bit_cast<float>(pack_bf16(0, v) & 0xFFFF0000U); }

#ifdef __CUDACC__

/// Bits that lie in memory as tensor cores take them.
__device__ inline std::uint32_t factor_bits(float, std::uint32_t bits) { return tf32_bits(__uint_as_float(bits)); }
__device__ inline std::uint32_t factor_bits(Bf16, std::uint32_t bits) { return bits; }

/// Writes a warp's 16 positions of a line, 16 channels from `channel` on of `stored`: sums has the results of two
/// matrices of 8 channels, where mma leaves them.
__device__ inline void store_line(float*, float* y, const Tiling& tiling, const TileStart& p, int line, int stored,
                                  int channel, const float (&low)[4], const float (&high)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Tiling::At at = tiling.output_of(p, line * tile_k + lane / 4 + 8 * half);
    if (!at.inside) continue;
    float* const to = y + at.position * stored + channel + lane % 4 * 2;
    write_words(float2{low[2 * half], low[2 * half + 1]}, to);
    write_words(float2{high[2 * half], high[2 * half + 1]}, to + 8);
  }
}
/// Neighbouring lanes exchange words, so that each writes 8 bytes and four lanes write 32 in a row.
__device__ inline void store_line(Bf16*, Bf16* y, const Tiling& tiling, const TileStart& p, int line, int stored,
                                  int channel, const float (&low)[4], const float (&high)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, quarter = lane % 4;
  const bool odd = quarter % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t first = pack_bf16(low[2 * half], low[2 * half + 1]);
    const std::uint32_t second = pack_bf16(high[2 * half], high[2 * half + 1]);
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, odd ? first : second, 1);
    const Tiling::At at = tiling.output_of(p, line * tile_k + lane / 4 + 8 * half);
    if (!at.inside) continue;
    Bf16* const to = y + at.position * stored + channel + (odd ? 8 + (quarter - 1) * 2 : quarter * 2);
    write_words(odd ? uint2{got, second} : uint2{first, got}, to);
  }
}

/// `Shares` neighbouring warps share a block's matrices, and each such group has lines of its own. Adds the groups'
/// sums in their order in `shared`, and writes the block's part: share by share, element by element, lane by lane.
template <int Shares, int M, int N>
__device__ void write_part(const float (&sums)[M][N][4], float* shared, float* parts) {
  constexpr int of_share = M * N * 4 * 32, part = Shares * of_share;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float* const to = shared + warp % Shares * of_share + lane;
  for (int turn = 0; turn < warps / Shares; ++turn) {
    if (warp / Shares == turn) {
#pragma unroll
      for (int e = 0; e < M * N * 4; ++e) {
        float& sum = to[e * 32];
        sum = (turn == 0 ? 0.0F : sum) + sums[e / 4 / N][e / 4 % N][e % 4];
      }
    }
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < part; i += block_of)
    parts[std::size_t{blockIdx.x} * part + i] = shared[i];
}

/// A block's tiles, one after the other: copy(start, memory) begins to copy a tile's tensors, use(start, memory) is
/// called when they are there. With two stages the next tile's copies are under way meanwhile.
template <int Stages, class Copy, class Use>
__device__ void for_each_tile(const Tiling& tiling, uint4* memory, int stage, const Copy& copy, const Use& use) {
  if constexpr (Stages == 1) {
    for (std::uint32_t tile = blockIdx.x; tile < tiling.count; tile += gridDim.x) {
      const TileStart start = tiling.start_of(tile);
      copy(start, memory);
      commit_copies();
      wait_copies<0>();
      use(start, memory);
      __syncthreads();
    }
  } else {
    uint4 *now = memory, *next = memory + stage;
    copy(tiling.start_of(blockIdx.x), now);
    commit_copies();
    for (std::uint32_t tile = blockIdx.x; tile < tiling.count; tile += gridDim.x) {
      if (tile + gridDim.x < tiling.count) copy(tiling.start_of(tile + gridDim.x), next);
      commit_copies();
      wait_copies<1>();
      use(tiling.start_of(tile), now);
      __syncthreads();  // the next round copies into `now`
      uint4* const used = now;
      now = next, next = used;
    }
  }
}

#endif

// The inputs of convolutions from few channels (conv3d_few_channels.cu) in a block's shared memory,
// normalised there if the batch norm of the network's input stands in front.

/// Most output channels, planes of output positions in a tile, and the tile's input positions.
inline constexpr int narrow_outs = 16, narrow_depth = 4, narrow_halo = halo_of(narrow_depth);

/// The inputs, and what they become before they are multiplied.
enum class Normalise { no, unscaled, scaled };
template <class T>
struct Inputs {
  Tiling tiling;
  const T* x;
  Normalise how;
  NormParameters norm;

  MRMF_HD Affine<width<T>> affine() const {
    if (how == Normalise::scaled) return norm.template read<width<T>>(0);
    if (how == Normalise::unscaled) return norm.template read_unscaled<width<T>>(0);
    return {};
  }
#ifdef __CUDACC__
  /// Begins to copy a tile's inputs.
  __device__ void copy(const TileStart& p, uint4* shared) const {
    for (int number = static_cast<int>(threadIdx.x); number < narrow_halo; number += block_of) {
      const Tiling::At from = tiling.input_of(p, number);
      copy_async(shared + number, x + from.position * width<T>, from.inside);
    }
  }
  /// Normalises what this thread copied; padding stays zero. The norm's numbers are in shared memory: registers are
  /// short.
  __device__ void normalise(const TileStart& p, const Affine<width<T>>& numbers, uint4* shared) const {
    if (how == Normalise::no) return;
    const Affine<width<T>> affine = numbers;
    for (int number = static_cast<int>(threadIdx.x); number < narrow_halo; number += block_of) {
      if (!tiling.input_of(p, number).inside) continue;
      float value[width<T>];
      T* const words = reinterpret_cast<T*>(shared);
      load(words, static_cast<std::size_t>(number), value);
      for (int c = 0; c < width<T>; ++c) value[c] = affine(c, value[c]);
      store(value, words, static_cast<std::size_t>(number));
    }
  }
#else
  /// Channels of the input of an output position's tap, rounded as they are multiplied. `numbers` are affine()'s.
  void read(std::uint32_t sample, int i, int j, int k, int tap, const Affine<width<T>>& numbers, float* values) const {
    std::fill_n(values, width<T>, 0.0F);
    if (!tiling.inside(i, j, k, tap)) return;
    const T* const from = x + tiling.input_of_tap(sample, i, j, k, tap) * width<T>;
    for (int c = 0; c < width<T>; ++c) {
      const float raw = to_float(from[c]);
      values[c] = as_factor(T{}, how == Normalise::no ? raw : numbers(c, raw));
    }
  }
#endif
};

template <class T>
Inputs<T> inputs_of(const NarrowConv& conv, const void* x) {
  const NarrowNorm* const norm = conv.norm;
  Inputs<T> inputs{Tiling(conv.geometry, conv.rows, narrow_depth), elements<T>(x), Normalise::no, {}};
  if (norm == nullptr) return inputs;
  inputs.how = norm->scaled ? Normalise::scaled : Normalise::unscaled;
  inputs.norm = NormParameters(norm->settings, norm->memory, norm->training);
  return inputs;
}

}  // namespace mrmf::cuda
