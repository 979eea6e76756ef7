#include "kernels/onednn/primitives.hpp"

#include <algorithm>
#include <string>

#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {
namespace {

// oneDNN 2.6.3's weight gradients of convolutions with one tap and strides write behind their scratchpad where there
// are few channels: the next best implementation serves instead.
dnnl::convolution_backward_weights::primitive_desc sound(dnnl::convolution_backward_weights::primitive_desc pd,
                                                         const ConvDescs& d) {
  const bool strided = std::ranges::any_of(d.strides, [](auto stride) { return stride > 1; });
  const auto faulty = [&] { return std::string(pd.impl_info_str()).find("1x1") != std::string::npos; };
  while (strided && faulty() && pd.next_impl()) {
  }
  return pd;
}

}  // namespace

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

std::shared_ptr<const Context> make_context(int threads) { return std::make_shared<const Context>(threads); }

ConvDescs describe_conv(const ConvGeometry& g, Index rows, Layout layout) {
  std::size_t first = 0;
  while (first < 2 && g.in[first] == 1 && g.kernel[first] == 1 && g.pad_before[first] == 0 && g.pad_after[first] == 0)
    ++first;
  const Extent out = g.out();
  Dims src{rows, g.in_channels}, weights{g.out_channels, g.in_channels}, dst{rows, g.out_channels};
  ConvDescs d;
  for (std::size_t a = first; a < 3; ++a) {
    src.push_back(g.in[a]);
    weights.push_back(g.kernel[a]);
    dst.push_back(out[a]);
    d.strides.push_back(g.stride[a]);
    d.dilates.push_back(g.dilation[a] - 1);  // oneDNN counts the positions between taps
    d.pad_before.push_back(g.pad_before[a]);
    d.pad_after.push_back(g.pad_after[a]);
  }
  constexpr Tag activations[] = {Tag::ndhwc, Tag::nhwc, Tag::nwc};
  constexpr Tag filters[] = {Tag::odhwi, Tag::ohwi, Tag::owi};
  const Tag tag = layout == Layout::any ? Tag::any : activations[first];
  d.src = f32(src, tag);
  d.dst = f32(dst, tag);
  d.weights = f32(weights, layout == Layout::plain ? filters[first] : Tag::any);
  d.plain_weights = f32(weights, filters[first]);
  if (g.bias) d.bias = f32({g.out_channels}, Tag::x);
  return d;
}

dnnl::convolution_forward::primitive_desc describe_forward(const Context& c, const ConvDescs& d) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), kind,      algorithm, d.src,        d.weights,   d.bias,
          d.dst,      d.strides, d.dilates, d.pad_before, d.pad_after, user_scratchpad()};
#else
  return {{kind, algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine()};
#endif
}

dnnl::convolution_backward_data::primitive_desc describe_backward_data(const Context& c, const ConvDescs& d) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(),       algorithm, d.src,        d.weights,   d.dst,
          d.strides,        d.dilates, d.pad_before, d.pad_after, describe_forward(c, d),
          user_scratchpad()};
#else
  return {{algorithm, d.src, d.weights, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine(),
          describe_forward(c, d)};
#endif
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const Context& c, const ConvDescs& d) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return sound({c.engine(), algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after,
                describe_forward(c, d), user_scratchpad()},
               d);
#else
  return sound({{algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after},
                user_scratchpad(),
                c.engine(),
                describe_forward(c, d)},
               d);
#endif
}

DenseDescs describe_dense(Index in, Index out, Index rows, Layout layout) {
  const Tag tag = layout == Layout::any ? Tag::any : Tag::ab;
  const Tag weights = layout == Layout::plain ? Tag::ab : Tag::any;
  return {f32({rows, in}, tag), f32({out, in}, weights), f32({out, in}, Tag::ab), f32({out}, Tag::a),
          f32({rows, out}, tag)};
}

dnnl::inner_product_forward::primitive_desc describe_forward(const Context& c, const DenseDescs& d) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), kind, d.src, d.weights, d.bias, d.dst, user_scratchpad()};
#else
  return {{kind, d.src, d.weights, d.bias, d.dst}, user_scratchpad(), c.engine()};
#endif
}

dnnl::inner_product_backward_data::primitive_desc describe_backward_data(const Context& c, const DenseDescs& d) {
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), d.src, d.weights, d.dst, describe_forward(c, d), user_scratchpad()};
#else
  return {{d.src, d.weights, d.dst}, user_scratchpad(), c.engine(), describe_forward(c, d)};
#endif
}

dnnl::inner_product_backward_weights::primitive_desc describe_backward_weights(const Context& c, const DenseDescs& d) {
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), d.src, d.weights, d.bias, d.dst, describe_forward(c, d), user_scratchpad()};
#else
  return {{d.src, d.weights, d.bias, d.dst}, user_scratchpad(), c.engine(), describe_forward(c, d)};
#endif
}

}  // namespace mrmf::onednn
