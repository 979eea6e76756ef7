// Convolutions of 3x3x3 taps, stride 1, from one stored vector of channels (8 in bf16, 4 in float32) to at most 16: the
// first layer of a network of volumes, alone or with the batch norm of the network's input in front of it. cuDNN pads
// such a layer's channels to 32 and fetches each input for each of the 27 taps. Here each input is read once,
// normalised if there is a norm, and the products of all taps read it from shared memory. narrow_weights.cu has the
// gradients.
#include "kernels/cuda/narrow_inputs.cuh"

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

}  // namespace mrmf::cuda
