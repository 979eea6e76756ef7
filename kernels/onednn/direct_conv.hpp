// The interface between the direct convolution (direct_conv.cpp) and its kernels for AVX2 (direct_conv_avx2.cpp).
//
// Plain data and function pointers only, as in fused_conv_pool.hpp and for the same reason.
#pragma once

namespace mrmf::direct {

/// A convolution of stride 1 as the kernels see it: a product of the weights with runs of channels-last input. Input
/// rows are padded copies, so that the `row` floats under every output position are there and contiguous.
struct Geometry {
  long in_channels, out_channels;
  long kernel[2];     ///< along the first and second axis; the third is in `row`
  long rows, width;   ///< output positions along the second and third axis: a plane
  long in_rows;       ///< input positions along the second axis
  long rows_before;   ///< rows of padding before them
  long padded_width;  ///< input positions along the third axis, padding included
  long row;           ///< floats under one output position: kernel along the third axis * in_channels
  long depth;         ///< of the whole product: kernel[0] * kernel[1] * row
  long padded_out;    ///< out_channels rounded up to whole vectors
};

/// Weights (depth, out channels) in blocks of output channels.
struct PackedWeights {
  const float* blocks;
  const float* bias;  ///< padded_out floats
};

struct Kernels {
  long lanes;  ///< floats in a vector
  /// packed: depth * padded_out floats, from the project's layout (out channels, depth).
  void (*pack)(const Geometry&, const float* w, float* packed);
  /// The weights of the data gradient, a convolution of dy with the filters mirrored along every axis: `g` is its
  /// geometry, w the weights of the forward convolution.
  void (*pack_mirrored)(const Geometry& g, const float* w, float* packed);
  /// One plane of output. planes: kernel[0] padded input planes, null where one lies in the padding.
  void (*forward)(const Geometry&, const float* const* planes, const PackedWeights&, float* y);
  /// Adds one plane's part to dw (depth, out channels) and db.
  void (*weights)(const Geometry&, const float* const* planes, const float* dy, float* dw, float* db);
};

const Kernels* avx2_kernels();

}  // namespace mrmf::direct
