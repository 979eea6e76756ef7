// Descriptors of the oneDNN primitives in use: the one place per primitive that knows oneDNN 2 from 3.
#pragma once

#include "kernels/onednn/context.hpp"

namespace mrmf::onednn {

/// The project's layout for all (plain), or for the activations with the weights left to the primitive
/// (channels_last), or everything left to the primitive (any).
enum class Layout { plain, channels_last, any };

/// A convolution's geometry in oneDNN's terms: logical order n, c, spatial; leading unit axes dropped.
struct ConvDescs {
  Desc src, weights, plain_weights, bias, dst;
  Dims strides, pad_before, pad_after;
};
ConvDescs describe_conv(const ConvGeometry& geometry, Index rows, Layout layout);
dnnl::convolution_forward::primitive_desc describe_forward(const Context& c, const ConvDescs& d);
dnnl::convolution_backward_data::primitive_desc describe_backward_data(const Context& c, const ConvDescs& d);
dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const Context& c, const ConvDescs& d);

struct DenseDescs {
  Desc src, weights, plain_weights, bias, dst;
};
DenseDescs describe_dense(Index in, Index out, Index rows, Layout layout);
dnnl::inner_product_forward::primitive_desc describe_forward(const Context& c, const DenseDescs& d);
dnnl::inner_product_backward_data::primitive_desc describe_backward_data(const Context& c, const DenseDescs& d);
dnnl::inner_product_backward_weights::primitive_desc describe_backward_weights(const Context& c, const DenseDescs& d);

}  // namespace mrmf::onednn
