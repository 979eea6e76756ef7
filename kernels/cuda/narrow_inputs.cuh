// The inputs of convolutions from few channels (narrow_conv.cu, narrow_weights.cu) in a block's shared memory,
// normalised there if the batch norm of the network's input stands in front.
#pragma once

#include "kernels/cuda/conv_tiles.cuh"
#include "kernels/cuda/norm_statistics.cuh"

namespace mrmf::cuda {

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
