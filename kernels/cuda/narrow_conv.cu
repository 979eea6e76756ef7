// Convolutions of 3x3x3 taps, stride 1, from one stored vector of channels (8 in bf16, 4 in float32) to at most 16: the
// first layer of a network of volumes, alone or with the batch norm of the network's input in front of it. cuDNN pads
// such a layer's channels to 32 and fetches each input for each of the 27 taps.
//
// A block computes tiles of 4 x 8 x 16 output positions, one after the other, and copies the inputs of the next tile to
// shared memory meanwhile. There each input lies once, normalised if there is a norm, and the products of all taps read
// it from there: one position's channels are a row of the matrices that tensor cores multiply.
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/norm_statistics.cuh"

namespace mrmf::cuda {
namespace {

constexpr int taps = 27;
constexpr int most_outs = 16;
constexpr int tile_i = 4, tile_j = 8, tile_k = 16;
constexpr int lines = tile_i * tile_j;  // of 16 output positions
constexpr int halo_j = tile_j + 2, halo_k = tile_k + 2, halo = (tile_i + 2) * halo_j * halo_k;
constexpr int warps = 8, block_of = 32 * warps;

/// A tap's input counted from that of the first tap, in a tile's inputs. What stands behind the last tap, to fill a
/// matrix, reads the last one's and is not used.
MRMF_HD constexpr int offset_of(int tap) {
  if (tap >= taps) tap = taps - 1;
  return ((tap / 9) * halo_j + tap / 3 % 3) * halo_k + tap % 3;
}

/// Where lanes of two kinds read: a tap's input, or the next tap's. Three distances between the two occur, so three
/// addresses and constants serve all taps, where an address for each would take a register.
template <class Word>
struct TapReader {
  const Word* at;
  const Word* to[3];  // of the next tap, by the distance: along the last axis, to the next line, to the next plane

  static constexpr int words = 16 / static_cast<int>(sizeof(Word));  // in a position
  MRMF_HD TapReader(const Word* first, bool next) : at(first) {
    constexpr int distances[3] = {1, offset_of(3) - offset_of(2), offset_of(9) - offset_of(8)};
    for (int d = 0; d < 3; ++d) to[d] = first + (next ? distances[d] * words : 0);
  }
  /// Of the tap and the one behind it; positions further along the line.
  MRMF_HD const Word* of(int tap, int positions = 0) const {
    const Word* const from = tap + 1 >= taps ? at : tap % 3 != 2 ? to[0] : tap % 9 != 8 ? to[1] : to[2];
    return from + (offset_of(tap) + positions) * words;
  }
};

struct Place {
  std::uint32_t sample;
  int first[3];  // output position of the tile's first
};

/// The tiles of all samples.
struct Tiling {
  int in[3], out[3], pad[3];
  Divider by_k, by_j, by_i;
  std::uint32_t count;

  Tiling(const ConvGeometry& geometry, Index n) {
    const Extent sizes = geometry.out();
    const Index sides[3] = {tile_i, tile_j, tile_k};
    Index along[3], all = n;
    for (std::size_t a = 0; a < 3; ++a) {
      in[a] = static_cast<int>(geometry.in[a]);
      out[a] = static_cast<int>(sizes[a]);
      pad[a] = static_cast<int>(geometry.pad_before[a]);
      along[a] = (sizes[a] + sides[a] - 1) / sides[a];
      all *= along[a];
    }
    by_i = Divider(along[0]), by_j = Divider(along[1]), by_k = Divider(along[2]);
    count = count32(all);
  }
  std::uint32_t blocks() const { return std::min(count, static_cast<std::uint32_t>(2 * multiprocessors)); }

  MRMF_HD Place place(std::uint32_t tile) const {
    Place p{};
    p.first[2] = static_cast<int>(by_k.take(tile)) * tile_k;
    p.first[1] = static_cast<int>(by_j.take(tile)) * tile_j;
    p.first[0] = static_cast<int>(by_i.take(tile)) * tile_i;
    p.sample = tile;
    return p;
  }
#ifndef __CUDACC__
  /// Of an output position: whether a tap's input lies inside, so that it is not padding.
  bool inside(int i, int j, int k, int tap) const {
    return has(i + tap / 9 - pad[0], j + tap / 3 % 3 - pad[1], k + tap % 3 - pad[2]);
  }
#endif
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
};

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
  struct At {
    bool inside;
    std::size_t vector;
  };
  __device__ At at(const Place& p, int number) const {
    const int i = p.first[0] - tiling.pad[0] + number / (halo_j * halo_k);
    const int j = p.first[1] - tiling.pad[1] + number / halo_k % halo_j;
    const int k = p.first[2] - tiling.pad[2] + number % halo_k;
    const bool inside = tiling.has(i, j, k);
    return {inside, inside ? tiling.input(p.sample, i, j, k) : 0};
  }
  /// Begins to copy a tile's inputs.
  __device__ void copy(const Place& p, uint4* shared) const {
    for (int number = static_cast<int>(threadIdx.x); number < halo; number += block_of) {
      const At from = at(p, number);
      copy_async(shared + number, x + from.vector * width<T>, from.inside);
    }
  }
  /// Normalises what this thread copied; padding stays zero. The norm's numbers are in shared memory: registers are
  /// short.
  __device__ void normalise(const Place& p, const Affine<width<T>>& numbers, uint4* shared) const {
    if (how == Normalise::no) return;
    const Affine<width<T>> affine = numbers;
    for (int number = static_cast<int>(threadIdx.x); number < halo; number += block_of) {
      if (!at(p, number).inside) continue;
      float value[width<T>];
      T* const words = reinterpret_cast<T*>(shared);
      load(words, static_cast<std::size_t>(number), value);
      for (int c = 0; c < width<T>; ++c) value[c] = affine(c, value[c]);
      store(value, words, static_cast<std::size_t>(number));
    }
  }
#else
  /// Channel c of the input of an output position's tap, rounded as it is multiplied.
  float value(std::uint32_t sample, int i, int j, int k, int tap, int c) const {
    if (!tiling.inside(i, j, k, tap)) return 0;
    const std::size_t vector =
        tiling.input(sample, i + tap / 9 - tiling.pad[0], j + tap / 3 % 3 - tiling.pad[1], k + tap % 3 - tiling.pad[2]);
    const float raw = to_float(x[vector * width<T> + static_cast<std::size_t>(c)]);
    return factor(T{}, how == Normalise::no ? raw : affine()(c, raw));
  }
  static float factor(float, float v) { return std::bit_cast<float>(tf32_bits(v)); }
  static float factor(Bf16, float v) { return std::bit_cast<float>(pack_bf16(0, v) & 0xFFFF0000U); }
#endif
};

#ifdef __CUDACC__
__device__ inline std::uint32_t factor_bits(float, std::uint32_t bits) { return tf32_bits(__uint_as_float(bits)); }
__device__ inline std::uint32_t factor_bits(Bf16, std::uint32_t bits) { return bits; }
#endif

/// Reads x, w (float32, unpadded) and b, which may be null; writes y.
template <class T>
struct NarrowForward {
  static constexpr int threads = block_of, blocks_at_once = 2;
  static constexpr int shared_bytes = 2 * halo * 16;
  static constexpr int steps = (taps + 1) / 2;  // two taps' channels are multiplied at once

  Inputs<T> inputs;
  int channels, outs;
  const float *w, *b;
  T* y;

  MRMF_HD float weight(int o, int tap, int c) const {
    return o < outs && tap < taps && c < channels ? w[(o * taps + tap) * channels + c] : 0.0F;
  }

#ifdef __CUDACC__
  using Weights = std::uint32_t[steps][2][2];  // step, half of the outputs, tap of the step

  __device__ std::uint32_t weight_bits(float, int o, int tap, int lane) const {
    return tf32_bits(weight(o, tap, lane % 4));
  }
  __device__ std::uint32_t weight_bits(Bf16, int o, int tap, int lane) const {
    return pack_bf16(weight(o, tap, lane % 4 * 2), weight(o, tap, lane % 4 * 2 + 1));
  }

  __device__ void operator()(uint4* shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Weights weights;
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int half = 0; half < 4; ++half)
        weights[s][half / 2][half % 2] = weight_bits(T{}, half / 2 * 8 + lane / 4, 2 * s + half % 2, lane);
    __shared__ Affine<width<T>> affine;
    if (threadIdx.x == 0) affine = inputs.affine();
    __syncthreads();
    uint4 *now = shared, *next = shared + halo;
    std::uint32_t tile = blockIdx.x;
    inputs.copy(inputs.tiling.place(tile), now);
    commit_copies();
    for (; tile < inputs.tiling.count; tile += gridDim.x) {
      const Place place = inputs.tiling.place(tile);
      if (tile + gridDim.x < inputs.tiling.count) inputs.copy(inputs.tiling.place(tile + gridDim.x), next);
      commit_copies();
      wait_copies<1>();
      inputs.normalise(place, affine, now);
      __syncthreads();
      multiply_tile(place, weights, now);
      __syncthreads();  // the next round copies into `now`
      uint4* const used = now;
      now = next, next = used;
    }
  }

  /// A warp has one j of the tile.
  __device__ void multiply_tile(const Place& place, const Weights& weights, const uint4* shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, j = static_cast<int>(threadIdx.x) / 32;
    const bool second = lane >= 16;  // names rows of the step's second tap
#pragma unroll 1
    for (int i = 0; i < tile_i; i += 2) {
      float sums[2][2][4] = {};
      const uint4* const row = shared + (i * halo_j + j) * halo_k + lane % 16;
#pragma unroll
      for (int s = 0; s < steps; ++s) {
        const int offset = second ? offset_of(2 * s + 1) : offset_of(2 * s);
#pragma unroll
        for (int line = 0; line < 2; ++line) {
          std::uint32_t a[4];
          load_matrices(row + line * halo_j * halo_k + offset, a);
          for (std::uint32_t& bits : a) bits = factor_bits(T{}, bits);
          multiply(T{}, sums[line][0], a, weights[s][0][0], weights[s][0][1]);
          multiply(T{}, sums[line][1], a, weights[s][1][0], weights[s][1][1]);
        }
      }
#pragma unroll
      for (int line = 0; line < 2; ++line) store_line(T{}, place, i + line, j, sums[line]);
    }
  }

  __device__ float bias(int o) const { return b != nullptr && o < outs ? b[o] : 0.0F; }

  __device__ void store_line(float, const Place& place, int i, int j, const float (&sums)[2][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, o = lane % 4 * 2;
    const int at[2] = {place.first[0] + i, place.first[1] + j};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = place.first[2] + lane / 4 + 8 * half;
      if (!inputs.tiling.has_output(at[0], at[1], k)) continue;
      float* const to = y + inputs.tiling.output(place.sample, at[0], at[1], k) * most_outs;
#pragma unroll
      for (int n = 0; n < 2; ++n)
        write_words(float2{sums[n][2 * half] + bias(8 * n + o), sums[n][2 * half + 1] + bias(8 * n + o + 1)},
                    to + 8 * n + o);
    }
  }
  /// Neighbouring lanes exchange words, so that each writes 8 bytes and four lanes write a whole position.
  __device__ void store_line(Bf16, const Place& place, int i, int j, const float (&sums)[2][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, quarter = lane % 4, o = quarter * 2;
    const bool odd = quarter % 2 != 0;
    const int at[2] = {place.first[0] + i, place.first[1] + j};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t low = pack_bf16(sums[0][2 * half] + bias(o), sums[0][2 * half + 1] + bias(o + 1));
      const std::uint32_t high = pack_bf16(sums[1][2 * half] + bias(8 + o), sums[1][2 * half + 1] + bias(8 + o + 1));
      const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, odd ? low : high, 1);
      const int k = place.first[2] + lane / 4 + 8 * half;
      if (!inputs.tiling.has_output(at[0], at[1], k)) continue;
      T* const to = y + inputs.tiling.output(place.sample, at[0], at[1], k) * most_outs;
      write_words(odd ? uint2{got, high} : uint2{low, got}, to + (odd ? 8 + (quarter - 1) * 2 : quarter * 2));
    }
  }
#else
  void emulate() const {
    const Tiling& t = inputs.tiling;
    for (std::uint32_t tile = 0; tile < t.count; ++tile) {
      const Place p = t.place(tile);
      for (int i = p.first[0]; i < p.first[0] + tile_i; ++i)
        for (int j = p.first[1]; j < p.first[1] + tile_j; ++j)
          for (int k = p.first[2]; k < p.first[2] + tile_k; ++k)
            if (t.has_output(i, j, k)) emulate(p.sample, i, j, k);
    }
  }
  void emulate(std::uint32_t sample, int i, int j, int k) const {
    for (int o = 0; o < most_outs; ++o) {
      float sum = b != nullptr && o < outs ? b[o] : 0.0F;
      for (int tap = 0; tap < taps; ++tap)
        for (int c = 0; c < channels; ++c)
          sum += inputs.value(sample, i, j, k, tap, c) * Inputs<T>::factor(T{}, weight(o, tap, c));
      store_element(sum, y, inputs.tiling.output(sample, i, j, k) * most_outs + static_cast<std::size_t>(o));
    }
  }
#endif
};

/// Where sums over positions of products with the outputs' gradient lie in a block's part: the rows of matrices of 16,
/// of (tap, channel) first, then of taps, which are multiplied by 1 where their input is inside.
template <class T>
struct WeightRows {
  static constexpr int taps_of_matrix = 16 / width<T>;
  static constexpr int matrices = (taps + taps_of_matrix - 1) / taps_of_matrix;
  static constexpr int of_warp = (matrices + 1) / 2;           // two warps share them
  static constexpr int part = 2 * (of_warp + 1) * 2 * 4 * 32;  // floats of a block

  /// Where in a part the sum of a weight's products is, and that of an output's gradients with a tap inside.
  MRMF_HD static int of_weight(int tap, int channel, int out) {
    const int matrix = tap / taps_of_matrix;
    return element(matrix / of_warp, matrix % of_warp, tap % taps_of_matrix * width<T> + channel, out);
  }
  MRMF_HD static int of_inside(int tap, int out) { return element(tap / 16, of_warp, tap % 16, out); }

 private:
  /// Of a warp's share, matrix, row and column: where the lanes of mma have their results.
  MRMF_HD static int element(int share, int matrix, int row, int out) {
    const int lane = row % 8 * 4 + out % 8 / 2, result = row / 8 * 2 + out % 2;
    return share * (part / 2) + ((matrix * 2 + out / 8) * 4 + result) * 32 + lane;
  }
};

/// Reads x and dy, writes a part for each block.
template <class T>
struct NarrowWeights {
  using Rows = WeightRows<T>;
  static constexpr int threads = block_of, blocks_at_once = 2;
  static constexpr int planes = most_outs / width<T>;                     // of dy: vectors of a position
  static constexpr int plane = lines * tile_k + (width<T> == 8 ? 0 : 4);  // vectors; then no two lanes share a bank
  static constexpr int stage = halo + planes * plane;
  static constexpr int shared_bytes = 2 * stage * 16;

  Inputs<T> inputs;
  const T* dy;
  float* parts;

#ifdef __CUDACC__
  using Sums = float[Rows::of_warp + 1][2][4];

  __device__ void copy(const Place& p, uint4* shared) const {
    inputs.copy(p, shared);
    for (int number = static_cast<int>(threadIdx.x); number < lines * tile_k * planes; number += block_of) {
      const int position = number / planes, line = position / tile_k;
      const int i = p.first[0] + line / tile_j, j = p.first[1] + line % tile_j, k = p.first[2] + position % tile_k;
      const bool inside = inputs.tiling.has_output(i, j, k);
      const std::size_t from = inside ? inputs.tiling.output(p.sample, i, j, k) * most_outs : 0;
      copy_async(shared + halo + number % planes * plane + position, dy + from + number % planes * width<T>, inside);
    }
  }

  __device__ void operator()(uint4* shared) const {
    __shared__ Affine<width<T>> affine;
    if (threadIdx.x == 0) affine = inputs.affine();
    __syncthreads();
    Sums sums = {};
    uint4 *now = shared, *next = shared + stage;
    std::uint32_t tile = blockIdx.x;
    copy(inputs.tiling.place(tile), now);
    commit_copies();
    for (; tile < inputs.tiling.count; tile += gridDim.x) {
      const Place place = inputs.tiling.place(tile);
      if (tile + gridDim.x < inputs.tiling.count) copy(inputs.tiling.place(tile + gridDim.x), next);
      commit_copies();
      wait_copies<1>();
      inputs.normalise(place, affine, now);
      const Ones ones = ones_of(place);
      __syncthreads();
#pragma unroll 1
      for (int line = static_cast<int>(threadIdx.x) / 64; line < lines; line += warps / 2)
        if (threadIdx.x / 32 % 2 == 0)
          multiply_line<0>(T{}, place, line, now, ones, sums);
        else
          multiply_line<1>(T{}, place, line, now, ones, sums);
      __syncthreads();
      uint4* const used = now;
      now = next, next = used;
    }
    add_warps(reinterpret_cast<float*>(shared), sums);
  }

  /// Of the two taps that a lane has rows of: ones where the input is inside along the last axis, for this lane's
  /// positions of any line of the tile (in bf16 two in a word). So for a line the other axes alone are left.
  struct Ones {
    static constexpr int words = width<T> == 8 ? 2 : 4;
    std::uint32_t of[2][words];
  };
  __device__ int tap_of_row(int half) const {
    return 16 * (static_cast<int>(threadIdx.x) / 32 % 2) + static_cast<int>(threadIdx.x) % 32 / 4 + 8 * half;
  }
  __device__ bool has_k(int k, int tap) const {
    const int at = k + tap % 3 - inputs.tiling.pad[2];
    return at >= 0 && at < inputs.tiling.in[2];
  }
  __device__ std::uint32_t ones_word(Bf16, int first, int word, int tap) const {
    const int k = first + static_cast<int>(threadIdx.x) % 4 * 2 + 8 * word;
    return (has_k(k, tap) ? 0x3F80U : 0U) | (has_k(k + 1, tap) ? 0x3F800000U : 0U);
  }
  __device__ std::uint32_t ones_word(float, int first, int word, int tap) const {
    return has_k(first + static_cast<int>(threadIdx.x) % 4 + 4 * word, tap) ? 0x3F800000U : 0U;
  }
  __device__ Ones ones_of(const Place& p) const {
    Ones ones;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int w = 0; w < Ones::words; ++w)
        ones.of[half][w] = tap_of_row(half) < taps ? ones_word(T{}, p.first[2], w, tap_of_row(half)) : 0U;
    return ones;
  }
  __device__ bool has_line(const Place& p, int line, int tap) const {
    const int i = p.first[0] + line / tile_j + tap / 9 - inputs.tiling.pad[0];
    const int j = p.first[1] + line % tile_j + tap / 3 % 3 - inputs.tiling.pad[1];
    return i >= 0 && i < inputs.tiling.in[0] && j >= 0 && j < inputs.tiling.in[1];
  }

  template <int Share>
  __device__ void multiply_line(Bf16, const Place& p, int line, const uint4* shared, const Ones& ones,
                                Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int i = line / tile_j, j = line % tile_j;
    std::uint32_t b[4];
    load_transposed(shared + halo + lane / 16 * plane + line * tile_k + lane % 16, b);
    const TapReader<uint4> x(shared + (i * halo_j + j) * halo_k + lane % 8 + lane / 16 * 8, lane / 8 % 2 != 0);
#pragma unroll
    for (int m = 0; m < Rows::of_warp; ++m) {
      const int tap = 2 * (Share * Rows::of_warp + m);
      std::uint32_t a[4];
      load_transposed(x.of(tap), a);
      multiply(T{}, sums[m][0], a, b[0], b[1]);
      multiply(T{}, sums[m][1], a, b[2], b[3]);
    }
    add_ones(p, line, ones, 0, b, sums);
  }

  template <int Share>
  __device__ void multiply_line(float, const Place& p, int line, const uint4* shared, const Ones& ones,
                                Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int i = line / tile_j, j = line % tile_j, channel = lane / 4 % 4;
    const TapReader<float> x(reinterpret_cast<const float*>(shared + (i * halo_j + j) * halo_k + lane % 4) + channel,
                             lane >= 16);
    const float* const g =
        reinterpret_cast<const float*>(shared + halo + lane / 16 * plane + line * tile_k + lane % 4) + channel;
#pragma unroll
    for (int k = 0; k < tile_k; k += 8) {
      std::uint32_t b[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) b[n] = tf32_bits(g[(n / 2 * 2 * plane + k + n % 2 * 4) * 4]);
#pragma unroll
      for (int m = 0; m < Rows::of_warp; ++m) {
        std::uint32_t a[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int tap = 4 * (Share * Rows::of_warp + m) + r % 2 * 2;
          a[r] = tf32_bits(*x.of(tap, k + r / 2 * 4));
        }
        multiply(T{}, sums[m][0], a, b[0], b[1]);
        multiply(T{}, sums[m][1], a, b[2], b[3]);
      }
      add_ones(p, line, ones, k / 4, b, sums);
    }
  }

  /// The taps' own rows: two words of the ones, from `first` on.
  __device__ void add_ones(const Place& p, int line, const Ones& ones, int first, const std::uint32_t (&b)[4],
                           Sums& sums) const {
    const bool low = has_line(p, line, tap_of_row(0)), high = has_line(p, line, tap_of_row(1));
    const std::uint32_t a[4] = {low ? ones.of[0][first] : 0U, high ? ones.of[1][first] : 0U,
                                low ? ones.of[0][first + 1] : 0U, high ? ones.of[1][first + 1] : 0U};
    multiply(T{}, sums[Rows::of_warp][0], a, b[0], b[1]);
    multiply(T{}, sums[Rows::of_warp][1], a, b[2], b[3]);
  }

  /// Adds the warps of different lines, in their order, and writes the block's part.
  __device__ void add_warps(float* shared, const Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    constexpr int of_share = Rows::part / 2;
    for (int turn = 0; turn < warps / 2; ++turn) {
      if (warp / 2 == turn) {
        float* const to = shared + warp % 2 * of_share + lane;
#pragma unroll
        for (int m = 0; m <= Rows::of_warp; ++m)
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            float& sum = to[(m * 8 + e) * 32];
            sum = (turn == 0 ? 0.0F : sum) + sums[m][e / 4][e % 4];
          }
      }
      __syncthreads();
    }
    for (int i = static_cast<int>(threadIdx.x); i < Rows::part; i += block_of)
      parts[std::size_t{blockIdx.x} * Rows::part + i] = shared[i];
  }
#else
  void emulate() const {
    const Tiling& t = inputs.tiling;
    std::fill_n(parts, t.blocks() * Rows::part, 0.0F);
    for (std::uint32_t tile = 0; tile < t.count; ++tile) {
      const Place p = t.place(tile);
      float* const part = parts + tile % t.blocks() * Rows::part;
      for (int i = p.first[0]; i < p.first[0] + tile_i; ++i)
        for (int j = p.first[1]; j < p.first[1] + tile_j; ++j)
          for (int k = p.first[2]; k < p.first[2] + tile_k; ++k)
            if (t.has_output(i, j, k)) emulate(p.sample, i, j, k, part);
    }
  }
  void emulate(std::uint32_t sample, int i, int j, int k, float* part) const;
#endif
};

#ifndef __CUDACC__
template <class T>
void NarrowWeights<T>::emulate(std::uint32_t sample, int i, int j, int k, float* part) const {
  const T* const gradient = dy + inputs.tiling.output(sample, i, j, k) * most_outs;
  float g[most_outs];
  for (int o = 0; o < most_outs; ++o) g[o] = Inputs<T>::factor(T{}, to_float(gradient[o]));
  for (int tap = 0; tap < taps; ++tap) {
    if (!inputs.tiling.inside(i, j, k, tap)) continue;
    for (int o = 0; o < most_outs; ++o) part[Rows::of_inside(tap, o)] += g[o];
    for (int c = 0; c < width<T>; ++c) {
      const float x = inputs.value(sample, i, j, k, tap, c);
      for (int o = 0; o < most_outs; ++o) part[Rows::of_weight(tap, c, o)] += g[o] * x;
    }
  }
}
#endif

/// Adds the blocks' parts in their order; writes dw (float32, unpadded), and the sums of the gradients inside.
template <class T>
struct AddParts {
  using Rows = WeightRows<T>;
  Divider by_channels;  // by one more than there are
  std::uint32_t blocks, channels;
  const float* parts;
  float* dw;
  float* inside;  // (out, tap)

  MRMF_HD void operator()(std::uint32_t i) const {
    std::uint32_t row = i;
    const std::uint32_t channel = by_channels.take(row);
    const int out = static_cast<int>(row) / taps, tap = static_cast<int>(row) % taps;
    const int at =
        channel == channels ? Rows::of_inside(tap, out) : Rows::of_weight(tap, static_cast<int>(channel), out);
    double total = 0;
    for (std::uint32_t block = 0; block < blocks; ++block) total += parts[std::size_t{block} * Rows::part + at];
    (channel == channels ? inside[row] : dw[row * channels + channel]) = static_cast<float>(total);
  }
};

/// A block has one channel: dgamma and dbeta from dw, taken with the unscaled input, and from the sums inside; then dw
/// becomes the gradient of the weights (kernels/cpu/norm_conv.cpp has the equations).
struct NormGradients {
  static constexpr int threads = 128, blocks_at_once = 1;
  static constexpr int shared_bytes = 2 * threads * static_cast<int>(sizeof(double));

  int channels, outs;
  const float *w, *gamma, *beta, *inside;  // inside: (out, tap)
  float *dw, *dgamma, *dbeta;

  /// Adds one weight's terms to those of dgamma and dbeta.
  MRMF_HD void add(int c, int i, double (&sums)[2]) const {
    const int at = i * channels + c;
    const float sum = inside[i], v = dw[at];
    sums[0] += double{w[at]} * v;
    sums[1] += double{w[at]} * sum;
    dw[at] = gamma[c] * v + beta[c] * sum;
  }
#ifdef __CUDACC__
  __device__ void operator()(uint4* memory) const {
    auto* const shared = reinterpret_cast<double*>(memory);
    const int thread = static_cast<int>(threadIdx.x), c = static_cast<int>(blockIdx.x);
    double sums[2] = {};
    for (int i = thread; i < outs * taps; i += threads) add(c, i, sums);
    for (int k = 0; k < 2; ++k) shared[k * threads + thread] = sums[k];
    for (int left = threads / 2; left > 0; left /= 2) {
      __syncthreads();
      if (thread >= left) continue;
      for (int k = 0; k < 2; ++k) shared[k * threads + thread] += shared[k * threads + thread + left];
    }
    if (thread > 0) return;
    dgamma[c] = static_cast<float>(shared[0]);
    dbeta[c] = static_cast<float>(shared[threads]);
  }
#else
  void emulate() const {
    for (int c = 0; c < channels; ++c) {
      double sums[2] = {};
      for (int i = 0; i < outs * taps; ++i) add(c, i, sums);
      dgamma[c] = static_cast<float>(sums[0]);
      dbeta[c] = static_cast<float>(sums[1]);
    }
  }
#endif
};

template <class T>
Inputs<T> inputs_of(const NarrowConv& conv, const void* x) {
  const NarrowNorm* const norm = conv.norm;
  Inputs<T> inputs{Tiling(conv.geometry, conv.rows), elements<T>(x), Normalise::no, {}};
  if (norm == nullptr) return inputs;
  inputs.how = norm->scaled ? Normalise::scaled : Normalise::unscaled;
  inputs.norm = NormParameters(norm->settings, norm->memory, norm->training);
  return inputs;
}

}  // namespace

bool is_narrow(const Storage& storage, const ConvGeometry& g) {
  return g.kernel == Extent{3, 3, 3} && g.stride == Extent{1, 1, 1} && g.dilation == Extent{1, 1, 1} &&
         storage.vectors(g.in_channels) == 1 && storage.channels(g.out_channels) == most_outs;
}

int narrow_conv_shared_bytes(const Storage& storage) {
  return storage.bf16 ? NarrowWeights<Bf16>::shared_bytes : NarrowWeights<float>::shared_bytes;
}

std::size_t narrow_conv_bytes(const Storage& storage, const ConvGeometry& geometry, Index rows) {
  const std::size_t part = storage.bf16 ? WeightRows<Bf16>::part : WeightRows<float>::part;
  return (Tiling(geometry, rows).blocks() * part + most_outs * taps) * sizeof(float);
}

void narrow_conv_forward(const Work& work, const NarrowConv& conv, const void* x, const float* w, const float* b,
                         void* y) {
  with_element(work.storage, [&]<class T>(T) {
    const Inputs<T> inputs = inputs_of<T>(conv, x);
    launch_blocks(work.stream, inputs.tiling.blocks(),
                  NarrowForward<T>{inputs, static_cast<int>(conv.geometry.in_channels),
                                   static_cast<int>(conv.geometry.out_channels), w, b, elements<T>(y)});
  });
}

void narrow_conv_weights(const Work& work, const NarrowConv& conv, const NarrowWeightsData& data) {
  const auto channels = static_cast<int>(conv.geometry.in_channels),
             outs = static_cast<int>(conv.geometry.out_channels);
  with_element(work.storage, [&]<class T>(T) {
    const Inputs<T> inputs = inputs_of<T>(conv, data.x);
    const std::uint32_t blocks = inputs.tiling.blocks();
    auto* const parts = static_cast<float*>(data.scratch);
    float* const inside = parts + std::size_t{blocks} * WeightRows<T>::part;
    launch_blocks(work.stream, blocks, NarrowWeights<T>{inputs, elements<T>(data.dy), parts});
    for_each(work.stream, outs * taps * (channels + 1),
             AddParts<T>{Divider(channels + 1), blocks, static_cast<std::uint32_t>(channels), parts, data.dw, inside});
    if (conv.norm == nullptr) return;
    const NormMemory& memory = conv.norm->memory;
    launch_blocks(work.stream, static_cast<std::uint32_t>(channels),
                  NormGradients{channels, outs, data.w, memory.gamma.data(), memory.beta.data(), inside, data.dw,
                                data.dgamma, data.dbeta});
  });
}

}  // namespace mrmf::cuda
