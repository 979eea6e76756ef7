// The interface between the direct convolution (direct_conv.cpp) and its kernels for AVX2 (direct_conv_avx2.cpp,
// winograd_avx2.cpp).
//
// Plain data and function pointers only, as in fused_conv_pool.hpp and for the same reason.
#pragma once

namespace mrmf::direct {

/// A convolution of stride 1 as the kernels see it: a product of the weights with runs of channels-last input. The
/// kernels read copies of the input planes in a form of their own, padded along the third axis.
struct Geometry {
  long in_channels, out_channels;
  long kernel[3];
  long rows, width;                  ///< output positions along the second and third axis: a plane
  long in_rows, in_width;            ///< the same of input
  long rows_before, columns_before;  ///< positions of padding before them
  long padded_width;                 ///< input positions along the third axis, padding included
  long row;                          ///< floats under one output position: kernel along the third axis * in_channels
  long depth;                        ///< of the whole product: kernel[0] * kernel[1] * row
  long padded_out;                   ///< out_channels rounded up to whole vectors
};

/// Floats of what the caller keeps for the kernels.
struct Sizes {
  long plane;     ///< the copy of an input plane; zeros before the first copy
  long packed;    ///< weights
  long gradient;  ///< of weights and bias
};

/// What takes the place of the input: (x - mean) * factor + beta. Each holds a row of the input plane: the channels'
/// values, again for every position.
struct Affine {
  const float *mean, *factor, *beta;
};

/// Weights in blocks of output channels.
struct PackedWeights {
  const float* blocks;
  const float* bias;  ///< padded_out floats
};

struct Kernels {
  long lanes;  ///< floats in a vector
  Sizes (*sizes)(const Geometry&);
  /// From the project's layout (out channels, depth).
  void (*pack)(const Geometry&, const float* w, float* packed);
  /// The weights of the data gradient, a convolution of dy with the filters mirrored along every axis: `g` is its
  /// geometry, w the weights of the forward convolution.
  void (*pack_mirrored)(const Geometry& g, const float* w, float* packed);
  /// Copies an input plane; map may be null.
  void (*copy)(const Geometry&, const float* x, const Affine* map, float* plane);
  /// One plane of output. planes: kernel[0] copies of input planes, null where one lies in the padding.
  void (*forward)(const Geometry&, const float* const* planes, const PackedWeights&, float* y);
  /// Adds one plane's part to the gradient, which is the kernels' own form of it.
  void (*weights)(const Geometry&, const float* const* planes, const float* dy, float* gradient);
  /// A vector of output channels, from `first` on, of the gradient's sum over threads: into dw (out channels, depth),
  /// db.
  void (*unpack)(const Geometry&, const float* gradient, long first, float* dw, float* db);
};

const Kernels* avx2_kernels();
/// For three taps along the third axis, and less padding than taps along the second and third. Half of the arithmetic,
/// about twice the rounding.
const Kernels* avx2_winograd_kernels();

}  // namespace mrmf::direct
