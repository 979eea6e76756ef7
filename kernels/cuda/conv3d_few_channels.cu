// Convolutions of 3x3x3 taps, stride 1, from one stored vector of channels (8 in bf16, 4 in float32) to at most 16: the
// first layer of a network of volumes, alone or with the batch norm of the network's input in front of it. cuDNN pads
// such a layer's channels to 32 and fetches each input for each of the 27 taps. Here each input is read once,
// normalised if there is a norm, and the products of all taps read it from shared memory. The gradients follow below.
#include "kernels/cuda/conv3d_tensor_core_tiles.cuh"
#include "kernels/cuda/launch_and_reduce.cuh"

namespace mrmf::cuda {
namespace {

/// Reads x, w (float32, unpadded) and b, which may be null; writes y.
template <class T>
struct NarrowForward {
  static constexpr int threads = block_of, blocks_at_once = 2;
  static constexpr int shared_bytes = 2 * narrow_halo * 16;
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
    for_each_tile<2>(
        inputs.tiling, shared, narrow_halo, [&](const TileStart& start, uint4* memory) { inputs.copy(start, memory); },
        [&](const TileStart& start, uint4* memory) {
          inputs.normalise(start, affine, memory);
          __syncthreads();
          multiply_tile(start, weights, memory);
        });
  }

  /// A warp has one j of the tile.
  __device__ void multiply_tile(const TileStart& start, const Weights& weights, const uint4* shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, j = static_cast<int>(threadIdx.x) / 32;
    const bool second = lane >= 16;  // names rows of the step's second tap
#pragma unroll 1
    for (int i = 0; i < narrow_depth; i += 2) {
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
      for (int line = 0; line < 2; ++line) {
        for (int e = 0; e < 8; ++e) sums[line][e / 4][e % 4] += bias(e / 4 * 8 + lane % 4 * 2 + e % 2);
        store_line(y, y, inputs.tiling, start, (i + line) * tile_j + j, narrow_outs, 0, sums[line][0], sums[line][1]);
      }
    }
  }

  __device__ float bias(int o) const { return b != nullptr && o < outs ? b[o] : 0.0F; }
#else
  void emulate() const {
    const Affine<width<T>> affine = inputs.affine();
    float factors[taps][width<T>][narrow_outs];
    for (int tap = 0; tap < taps; ++tap)
      for (int c = 0; c < width<T>; ++c)
        for (int o = 0; o < narrow_outs; ++o) factors[tap][c][o] = as_factor(T{}, weight(o, tap, c));
    inputs.tiling.for_each_output([&](std::uint32_t, std::uint32_t sample, int i, int j, int k) {
      float sums[narrow_outs], x[width<T>];
      for (int o = 0; o < narrow_outs; ++o) sums[o] = b != nullptr && o < outs ? b[o] : 0.0F;
      for (int tap = 0; tap < taps; ++tap) {
        inputs.read(sample, i, j, k, tap, affine, x);
        for (int c = 0; c < channels; ++c)
          for (int o = 0; o < narrow_outs; ++o) sums[o] += x[c] * factors[tap][c][o];
      }
      for (int o = 0; o < narrow_outs; ++o)
        store_element(sums[o], y, inputs.tiling.output(sample, i, j, k) * narrow_outs + static_cast<std::size_t>(o));
    });
  }
#endif
};

}  // namespace

bool is_narrow(const Storage& storage, const ConvGeometry& g) {
  return has_cube_of_taps(g) && storage.vectors(g.in_channels) == 1 && storage.channels(g.out_channels) == narrow_outs;
}

void narrow_conv_forward(const Work& work, const NarrowConv& conv, const void* x, const float* w, const float* b,
                         void* y) {
  with_element(work.storage, [&]<class T>(T) {
    const Inputs<T> inputs = inputs_of<T>(conv, x);
    launch_blocks(work.stream, inputs.tiling.blocks(NarrowForward<T>::blocks_at_once),
                  NarrowForward<T>{inputs, static_cast<int>(conv.geometry.in_channels),
                                   static_cast<int>(conv.geometry.out_channels), w, b, elements<T>(y)});
  });
}

// The gradients of the same: of the weights, and, through these, of the batch
// norm in front. Its dgamma and dbeta want the sums of the outputs' gradients over the positions that each tap reaches;
// these are rows of the same products, with ones in place of inputs.

namespace {

constexpr int lines = lines_of(narrow_depth);

/// Where lanes of two kinds read: a tap's input, or the next tap's. Three distances between the two occur, so three
/// addresses and constants serve all taps, where an address for each would take a register.
template <class Word>
struct TapReader {
  const Word* at;
  const Word* to[3];  // the next tap, by the distance: along the last axis, to the next line, to the next plane

  static constexpr int words = 16 / static_cast<int>(sizeof(Word));  // in a position
  MRMF_HD TapReader(const Word* first, bool next) : at(first) {
    constexpr int distances[3] = {1, offset_of(3) - offset_of(2), offset_of(9) - offset_of(8)};
    for (int d = 0; d < 3; ++d) to[d] = first + (next ? distances[d] * words : 0);
  }
  /// Where the input of the tap is, or of the one behind it; positions further along the line.
  MRMF_HD const Word* of(int tap, int positions = 0) const {
    const Word* const from = tap + 1 >= taps ? at : tap % 3 != 2 ? to[0] : tap % 9 != 8 ? to[1] : to[2];
    return from + (offset_of(tap) + positions) * words;
  }
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
  /// Where an element is, by a warp's share, matrix, row and column: where the lanes of mma have their results.
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
  static constexpr int planes = narrow_outs / width<T>;                   // vectors of a position of dy
  static constexpr int plane = lines * tile_k + (width<T> == 8 ? 0 : 4);  // vectors; then no two lanes share a bank
  static constexpr int stage = narrow_halo + planes * plane;
  static constexpr int shared_bytes = 2 * stage * 16;

  Inputs<T> inputs;
  const T* dy;
  float* parts;

#ifdef __CUDACC__
  using Sums = float[Rows::of_warp + 1][2][4];

  __device__ void copy(const TileStart& p, uint4* shared) const {
    inputs.copy(p, shared);
    for (int number = static_cast<int>(threadIdx.x); number < lines * tile_k * planes; number += block_of) {
      const Tiling::At from = inputs.tiling.output_of(p, number / planes);
      copy_async(shared + narrow_halo + number % planes * plane + number / planes,
                 dy + from.position * narrow_outs + number % planes * width<T>, from.inside);
    }
  }

  __device__ void operator()(uint4* shared) const {
    __shared__ Affine<width<T>> affine;
    if (threadIdx.x == 0) affine = inputs.affine();
    __syncthreads();
    Sums sums = {};
    for_each_tile<2>(
        inputs.tiling, shared, stage, [&](const TileStart& start, uint4* memory) { copy(start, memory); },
        [&](const TileStart& start, uint4* memory) {
          inputs.normalise(start, affine, memory);
          const Ones ones = ones_of(start);
          __syncthreads();
#pragma unroll 1
          for (int line = static_cast<int>(threadIdx.x) / 64; line < lines; line += warps / 2)
            if (threadIdx.x / 32 % 2 == 0)
              multiply_line<0>(T{}, start, line, memory, ones, sums);
            else
              multiply_line<1>(T{}, start, line, memory, ones, sums);
        });
    write_part<2>(sums, reinterpret_cast<float*>(shared), parts);
  }

  /// For the two taps that a lane has rows of: ones where the input is inside along the last axis, for this lane's
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
  __device__ Ones ones_of(const TileStart& p) const {
    Ones ones;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int w = 0; w < Ones::words; ++w)
        ones.of[half][w] = tap_of_row(half) < taps ? ones_word(T{}, p.first[2], w, tap_of_row(half)) : 0U;
    return ones;
  }
  __device__ bool has_line(const TileStart& p, int line, int tap) const {
    const int i = p.first[0] + line / tile_j + tap / 9 - inputs.tiling.pad[0];
    const int j = p.first[1] + line % tile_j + tap / 3 % 3 - inputs.tiling.pad[1];
    return i >= 0 && i < inputs.tiling.in[0] && j >= 0 && j < inputs.tiling.in[1];
  }

  template <int Share>
  __device__ void multiply_line(Bf16, const TileStart& p, int line, const uint4* shared, const Ones& ones,
                                Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int i = line / tile_j, j = line % tile_j;
    std::uint32_t b[4];
    load_transposed(shared + narrow_halo + lane / 16 * plane + line * tile_k + lane % 16, b);
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
  __device__ void multiply_line(float, const TileStart& p, int line, const uint4* shared, const Ones& ones,
                                Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int i = line / tile_j, j = line % tile_j, channel = lane / 4 % 4;
    const TapReader<float> x(reinterpret_cast<const float*>(shared + (i * halo_j + j) * halo_k + lane % 4) + channel,
                             lane >= 16);
    const float* const g =
        reinterpret_cast<const float*>(shared + narrow_halo + lane / 16 * plane + line * tile_k + lane % 4) + channel;
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
  __device__ void add_ones(const TileStart& p, int line, const Ones& ones, int first, const std::uint32_t (&b)[4],
                           Sums& sums) const {
    const bool low = has_line(p, line, tap_of_row(0)), high = has_line(p, line, tap_of_row(1));
    const std::uint32_t a[4] = {low ? ones.of[0][first] : 0U, high ? ones.of[1][first] : 0U,
                                low ? ones.of[0][first + 1] : 0U, high ? ones.of[1][first + 1] : 0U};
    multiply(T{}, sums[Rows::of_warp][0], a, b[0], b[1]);
    multiply(T{}, sums[Rows::of_warp][1], a, b[2], b[3]);
  }

#else
  void emulate() const {
    const std::uint32_t blocks = inputs.tiling.blocks(blocks_at_once);
    const Affine<width<T>> affine = inputs.affine();
    std::fill_n(parts, blocks * Rows::part, 0.0F);
    inputs.tiling.for_each_output([&](std::uint32_t tile, std::uint32_t sample, int i, int j, int k) {
      emulate(sample, i, j, k, affine, parts + tile % blocks * Rows::part);
    });
  }
  void emulate(std::uint32_t sample, int i, int j, int k, const Affine<width<T>>& affine, float* part) const;
#endif
};

#ifndef __CUDACC__
template <class T>
void NarrowWeights<T>::emulate(std::uint32_t sample, int i, int j, int k, const Affine<width<T>>& affine,
                               float* part) const {
  const T* const gradient = dy + inputs.tiling.output(sample, i, j, k) * narrow_outs;
  float g[narrow_outs], x[width<T>];
  for (int o = 0; o < narrow_outs; ++o) g[o] = as_factor(T{}, to_float(gradient[o]));
  for (int tap = 0; tap < taps; ++tap) {
    if (!inputs.tiling.inside(i, j, k, tap)) continue;
    for (int o = 0; o < narrow_outs; ++o) part[Rows::of_inside(tap, o)] += g[o];
    inputs.read(sample, i, j, k, tap, affine, x);
    for (int c = 0; c < width<T>; ++c)
      for (int o = 0; o < narrow_outs; ++o) part[Rows::of_weight(tap, c, o)] += g[o] * x[c];
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
    (channel == channels ? inside[row] : dw[row * channels + channel]) = sum_of_parts(parts, blocks, Rows::part, at);
  }
};

/// A block has one channel: dgamma and dbeta from dw, taken with the unscaled input, and from the sums inside; then dw
/// becomes the gradient of the weights (kernels/cpu/conv_transpose_and_norm_conv.cpp has the equations).
struct NormGradients {
  static constexpr int threads = 128, blocks_at_once = 1;
  static constexpr int shared_bytes = 2 * threads / 2 * static_cast<int>(sizeof(double));  // what add_groups() wants

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
    const int c = static_cast<int>(blockIdx.x);
    double sums[2] = {};
    for (int i = static_cast<int>(threadIdx.x); i < outs * taps; i += threads) add(c, i, sums);
    add_groups(sums, reinterpret_cast<double*>(memory), 1, threads);
    if (threadIdx.x > 0) return;
    dgamma[c] = static_cast<float>(sums[0]);
    dbeta[c] = static_cast<float>(sums[1]);
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

}  // namespace

int narrow_conv_shared_bytes(const Storage& storage) {
  return storage.bf16 ? NarrowWeights<Bf16>::shared_bytes : NarrowWeights<float>::shared_bytes;
}

std::size_t narrow_conv_bytes(const Storage& storage, const ConvGeometry& geometry, Index rows) {
  const std::size_t part = storage.bf16 ? WeightRows<Bf16>::part : WeightRows<float>::part;
  return (Tiling(geometry, rows, narrow_depth).blocks(2) * part + narrow_outs * taps) * sizeof(float);
}

void narrow_conv_weights(const Work& work, const NarrowConv& conv, const NarrowWeightsData& data) {
  const auto channels = static_cast<int>(conv.geometry.in_channels),
             outs = static_cast<int>(conv.geometry.out_channels);
  with_element(work.storage, [&]<class T>(T) {
    const Inputs<T> inputs = inputs_of<T>(conv, data.x);
    const std::uint32_t blocks = inputs.tiling.blocks(NarrowWeights<T>::blocks_at_once);
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
