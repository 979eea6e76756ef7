// Convolutions of 3x3x3 taps, stride 1, from 16 channels to 32: the second layer of a network of volumes. cuDNN fetches
// each input for each of the 27 taps; here it is read once, and the products of all taps read it from shared memory, as
// they read the weights. The data gradient is the same convolution, of the gradient with the taps in reverse order.
#include "kernels/cuda/conv3d_tensor_core_tiles.cuh"

namespace mrmf::cuda {
namespace {

constexpr int most_ins = 16, most_outs = 32;
constexpr int room_of_two = 113 * 1024, room_of_one = 227 * 1024;  // shared memory of two blocks, or of one

/// Reads x of V vectors of channels a position and w (float32, unpadded), writes y of O stored channels. `reversed`: of
/// the data gradient, where w is that of the convolution from O to V vectors.
template <class T, int V, int O>
struct CubeForward {
  static constexpr int depth = 4, halo = halo_of(depth);
  static constexpr int weight_vectors = taps * V * O;
  static constexpr int bytes(int copies) { return (copies * V * halo + weight_vectors) * 16; }
  static constexpr int stages = bytes(2) <= room_of_two   ? 2
                                : bytes(1) <= room_of_two ? 1
                                : bytes(2) <= room_of_one ? 2
                                                          : 1;
  static constexpr int threads = block_of, shared_bytes = bytes(stages);
  static constexpr int blocks_at_once = shared_bytes <= room_of_two ? 2 : 1;
  static constexpr int matrices = O / 8;

  Tiling tiling;
  const T* x;
  const float *w, *b;
  T* y;
  int channels, outs;
  bool reversed;

  MRMF_HD float weight(int out, int tap, int c) const {
    if (out >= outs || c >= channels) return 0;
    return reversed ? w[(c * taps + taps - 1 - tap) * outs + out] : w[(out * taps + tap) * channels + c];
  }

#ifdef __CUDACC__
  /// Rows of matrices: the vector `number` has one output's weights of a tap and of some channels.
  __device__ uint4 weight_vector(int number) const {
    const int out = number % O, plane = number / O % V, tap = number / O / V;
    float v[width<T>];
    for (int e = 0; e < width<T>; ++e) v[e] = weight(out, tap, plane * width<T> + e);
    return factors(v);
  }
  __device__ static uint4 factors(const float (&v)[4]) {
    return {tf32_bits(v[0]), tf32_bits(v[1]), tf32_bits(v[2]), tf32_bits(v[3])};
  }
  __device__ static uint4 factors(const float (&v)[8]) {
    return {pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
  }

  __device__ void operator()(uint4* shared) const {
    uint4* const weights = shared;
    for (int i = static_cast<int>(threadIdx.x); i < weight_vectors; i += block_of) weights[i] = weight_vector(i);
    for_each_tile<stages>(
        tiling, shared + weight_vectors, V * halo,
        [&](const TileStart& start, uint4* memory) {
          for (int i = static_cast<int>(threadIdx.x); i < V * halo; i += block_of) {
            const Tiling::At from = tiling.input_of(start, i / V);
            copy_async(memory + i % V * halo + i / V, x + (from.position * V + i % V) * width<T>, from.inside);
          }
        },
        [&](const TileStart& start, uint4* memory) {
          __syncthreads();
          multiply_tile(start, weights, memory);
        });
  }

  /// A warp has one j of the tile, and so its lines of `depth` planes.
  __device__ void multiply_tile(const TileStart& start, const uint4* weights, const uint4* shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, j = static_cast<int>(threadIdx.x) / 32;
    float sums[depth][matrices][4] = {};
    const uint4* const line = shared + lane / 16 * halo + j * halo_k + lane % 16;
    const uint4* const row = weights + lane / 8 % 2 * O + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int plane = 0; plane < 3; ++plane)
#pragma unroll 1
      for (int step = 0; step < 9; ++step) {
        const int offset = step / 3 * halo_k + step % 3;
#pragma unroll
        for (int v = 0; v < V; v += 2) {
          std::uint32_t w_bits[matrices / 2][4];
#pragma unroll
          for (int m = 0; m < matrices / 2; ++m)
            load_matrices(row + ((plane * 9 + step) * V + v) * O + m * 16, w_bits[m]);
#pragma unroll
          for (int i = 0; i < depth; ++i) {
            std::uint32_t a[4];
            load_matrices(line + v * halo + (i + plane) * halo_j * halo_k + offset, a);
            for (std::uint32_t& bits : a) bits = factor_bits(T{}, bits);
#pragma unroll
            for (int m = 0; m < matrices; ++m)
              multiply(T{}, sums[i][m], a, w_bits[m / 2][m % 2 * 2], w_bits[m / 2][m % 2 * 2 + 1]);
          }
        }
      }
#pragma unroll
    for (int i = 0; i < depth; ++i)
#pragma unroll
      for (int m = 0; m < matrices; m += 2) {
        for (int e = 0; e < 8; ++e) sums[i][m + e / 4][e % 4] += bias((m + e / 4) * 8 + lane % 4 * 2 + e % 2);
        store_line(y, y, tiling, start, i * tile_j + j, O, m * 8, sums[i][m], sums[i][m + 1]);
      }
  }
  __device__ float bias(int out) const { return b != nullptr && out < outs ? b[out] : 0.0F; }
#else
  void emulate() const {
    std::vector<float> factors(static_cast<std::size_t>(O * taps * channels));
    for (int i = 0; i < O * taps * channels; ++i)
      factors[static_cast<std::size_t>(i)] = as_factor(T{}, weight(i % O, i / O / channels, i / O % channels));
    tiling.for_each_output([&](std::uint32_t, std::uint32_t sample, int i, int j, int k) {
      float sums[O] = {};
      if (b != nullptr) std::copy_n(b, outs, sums);
      for (int tap = 0; tap < taps; ++tap) {
        if (!tiling.inside(i, j, k, tap)) continue;
        const T* const from = x + tiling.input_of_tap(sample, i, j, k, tap) * V * width<T>;
        for (int c = 0; c < channels; ++c) {
          const float value = as_factor(T{}, to_float(from[c]));
          const float* const f = factors.data() + (tap * channels + c) * O;
          for (int o = 0; o < O; ++o) sums[o] += value * f[o];
        }
      }
      for (int o = 0; o < O; ++o)
        store_element(sums[o], y, tiling.output(sample, i, j, k) * O + static_cast<std::size_t>(o));
    });
  }
#endif
};

/// Reads x and dy, writes a part for each block: sums of products for (tap, channel) by output. Four warps share the
/// taps, and two such groups the lines.
template <class T>
struct CubeWeights {
  static constexpr int depth = width<T> == 8 ? 4 : 2;  // so that two stages fit
  static constexpr int lines = lines_of(depth);
  static constexpr int spread = width<T> == 8 ? 0 : 4;  // then no two lanes share a bank
  static constexpr int x_planes = most_ins / width<T>, x_plane = halo_of(depth) + spread;
  static constexpr int dy_planes = most_outs / width<T>, dy_plane = lines * tile_k + spread;
  static constexpr int stage = x_planes * x_plane + dy_planes * dy_plane;
  static constexpr int threads = block_of, blocks_at_once = 1, shared_bytes = 2 * stage * 16;
  static constexpr int shares = 4, of_share = (taps + shares - 1) / shares, matrices = most_outs / 8;
  static constexpr int part = shares * of_share * matrices * 4 * 32;  // floats of a block

  Tiling tiling;
  const T *x, *dy;
  float* parts;

  /// Where in a part a weight's sum is: where the lanes of mma have their results.
  MRMF_HD static int element(int tap, int channel, int out) {
    const int lane = channel % 8 * 4 + out % 8 / 2, result = channel / 8 * 2 + out % 2;
    return ((tap * matrices + out / 8) * 4 + result) * 32 + lane;
  }

#ifdef __CUDACC__
  using Sums = float[of_share][matrices][4];

  __device__ void copy(const TileStart& start, uint4* memory) const {
    for (int i = static_cast<int>(threadIdx.x); i < x_planes * halo_of(depth); i += block_of) {
      const Tiling::At from = tiling.input_of(start, i / x_planes);
      copy_async(memory + i % x_planes * x_plane + i / x_planes,
                 x + (from.position * x_planes + i % x_planes) * width<T>, from.inside);
    }
    for (int i = static_cast<int>(threadIdx.x); i < dy_planes * lines * tile_k; i += block_of) {
      const Tiling::At from = tiling.output_of(start, i / dy_planes);
      copy_async(memory + x_planes * x_plane + i % dy_planes * dy_plane + i / dy_planes,
                 dy + (from.position * dy_planes + i % dy_planes) * width<T>, from.inside);
    }
  }

  __device__ void operator()(uint4* shared) const {
    const int share = static_cast<int>(threadIdx.x) / 32 % shares;
    int offsets[of_share];
#pragma unroll
    for (int m = 0; m < of_share; ++m) offsets[m] = offset_of(share * of_share + m);
    Sums sums = {};
    for_each_tile<2>(
        tiling, shared, stage, [&](const TileStart& start, uint4* memory) { copy(start, memory); },
        [&](const TileStart&, uint4* memory) {
          __syncthreads();
#pragma unroll 1
          for (int line = static_cast<int>(threadIdx.x) / (32 * shares); line < lines; line += warps / shares)
            multiply_line(T{}, line, memory, offsets, sums);
        });
    write_part<shares>(sums, reinterpret_cast<float*>(shared), parts);
  }

  __device__ void multiply_line(Bf16, int line, const uint4* memory, const int (&offsets)[of_share], Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, i = line / tile_j, j = line % tile_j;
    std::uint32_t b[matrices / 2][4];
#pragma unroll
    for (int m = 0; m < matrices / 2; ++m)
      load_transposed(memory + x_planes * x_plane + (2 * m + lane / 16) * dy_plane + line * tile_k + lane % 16, b[m]);
    const uint4* const row = memory + lane / 8 % 2 * x_plane + (i * halo_j + j) * halo_k + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int m = 0; m < of_share; ++m) {
      std::uint32_t a[4];
      load_transposed(row + offsets[m], a);
#pragma unroll
      for (int n = 0; n < matrices; ++n) multiply(T{}, sums[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
  }

  __device__ void multiply_line(float, int line, const uint4* memory, const int (&offsets)[of_share],
                                Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, i = line / tile_j, j = line % tile_j;
    const int plane = lane / 16, channel = lane / 4 % 4, position = lane % 4;
    const auto* const values = reinterpret_cast<const float*>(memory);
    const float* const from = values + (plane * x_plane + (i * halo_j + j) * halo_k + position) * 4 + channel;
    const float* const g = values + (x_planes * x_plane + plane * dy_plane + line * tile_k + position) * 4 + channel;
#pragma unroll
    for (int k = 0; k < tile_k; k += 8) {
      std::uint32_t b[matrices][2];
#pragma unroll
      for (int n = 0; n < 2 * matrices; ++n) b[n / 2][n % 2] = tf32_bits(g[(n / 2 * 2 * dy_plane + k + n % 2 * 4) * 4]);
#pragma unroll
      for (int m = 0; m < of_share; ++m) {
        std::uint32_t a[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) a[r] = tf32_bits(from[(offsets[m] + r % 2 * 2 * x_plane + k + r / 2 * 4) * 4]);
#pragma unroll
        for (int n = 0; n < matrices; ++n) multiply(T{}, sums[m][n], a, b[n][0], b[n][1]);
      }
    }
  }

#else
  void emulate() const {
    const std::uint32_t blocks = tiling.blocks(blocks_at_once);
    std::fill_n(parts, std::size_t{blocks} * part, 0.0F);
    tiling.for_each_output([&](std::uint32_t tile, std::uint32_t sample, int i, int j, int k) {
      float* const to = parts + std::size_t{tile % blocks} * part;
      const T* const gradient = dy + tiling.output(sample, i, j, k) * most_outs;
      for (int tap = 0; tap < taps; ++tap) {
        if (!tiling.inside(i, j, k, tap)) continue;
        const T* const from = x + tiling.input_of_tap(sample, i, j, k, tap) * most_ins;
        for (int c = 0; c < most_ins; ++c)
          for (int o = 0; o < most_outs; ++o)
            to[element(tap, c, o)] += as_factor(T{}, to_float(from[c])) * as_factor(T{}, to_float(gradient[o]));
      }
    });
  }
#endif
};

/// Adds the blocks' parts in their order; writes dw (float32, unpadded).
template <class T>
struct AddCubeParts {
  Divider by_channels;
  std::uint32_t blocks;
  const float* parts;
  float* dw;

  MRMF_HD void operator()(std::uint32_t i) const {
    std::uint32_t row = i;
    const int channel = static_cast<int>(by_channels.take(row));
    const int at = CubeWeights<T>::element(static_cast<int>(row) % taps, channel, static_cast<int>(row) / taps);
    dw[i] = sum_of_parts(parts, blocks, CubeWeights<T>::part, at);
  }
};

template <class F>
void launch(const Work& work, const F& f) {
  launch_blocks(work.stream, f.tiling.blocks(F::blocks_at_once), f);
}

int count(Index n) { return static_cast<int>(n); }

}  // namespace

bool is_cube(const Storage& storage, const ConvGeometry& g) {
  return has_cube_of_taps(g) && storage.channels(g.in_channels) == most_ins &&
         storage.channels(g.out_channels) == most_outs;
}

int cube_conv_shared_bytes(const Storage& storage) {
  return storage.bf16 ? std::max({CubeForward<Bf16, 2, 32>::shared_bytes, CubeForward<Bf16, 4, 16>::shared_bytes,
                                  CubeWeights<Bf16>::shared_bytes})
                      : std::max({CubeForward<float, 4, 32>::shared_bytes, CubeForward<float, 8, 16>::shared_bytes,
                                  CubeWeights<float>::shared_bytes});
}

std::size_t cube_conv_bytes(const Storage& storage, const ConvGeometry& g, Index rows) {
  const auto bytes = [&]<class T>(T) {
    return std::size_t{Tiling(g, rows, CubeWeights<T>::depth).blocks(CubeWeights<T>::blocks_at_once)} *
           CubeWeights<T>::part * sizeof(float);
  };
  return storage.bf16 ? bytes(Bf16{}) : bytes(float{});
}

void cube_conv_forward(const Work& work, const ConvGeometry& g, Index rows, const void* x, const float* w,
                       const float* b, void* y) {
  with_element(work.storage, [&]<class T>(T) {
    using Kernel = CubeForward<T, most_ins / width<T>, most_outs>;
    launch(work, Kernel{Tiling(g, rows, Kernel::depth), elements<T>(x), w, b, elements<T>(y), count(g.in_channels),
                        count(g.out_channels), false});
  });
}

void cube_conv_data(const Work& work, const ConvGeometry& g, Index rows, const void* dy, const float* w, void* dx) {
  const Extent pad{2 - g.pad_before[0], 2 - g.pad_before[1], 2 - g.pad_before[2]};
  with_element(work.storage, [&]<class T>(T) {
    using Kernel = CubeForward<T, most_outs / width<T>, most_ins>;
    launch(work, Kernel{Tiling(g.out(), g.in, pad, rows, Kernel::depth), elements<T>(dy), w, nullptr, elements<T>(dx),
                        count(g.out_channels), count(g.in_channels), true});
  });
}

void cube_conv_weights(const Work& work, const ConvGeometry& g, Index rows, const void* x, const void* dy, float* dw,
                       void* scratch) {
  with_element(work.storage, [&]<class T>(T) {
    const CubeWeights<T> kernel{Tiling(g, rows, CubeWeights<T>::depth), elements<T>(x), elements<T>(dy),
                                static_cast<float*>(scratch)};
    launch(work, kernel);
    for_each(work.stream, g.weights(),
             AddCubeParts<T>{Divider(g.in_channels), kernel.tiling.blocks(kernel.blocks_at_once), kernel.parts, dw});
  });
}

}  // namespace mrmf::cuda
