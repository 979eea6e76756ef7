#include "kernels/onednn/primitives.hpp"

#include <algorithm>
#include <string>

#include <dnnl.hpp>

#include "kernels/errors.hpp"
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

ConvDescs describe_conv(const ConvGeometry& g, Index rows, Layout layout, const TensorTypes& types) {
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
  d.src = Desc(src, types.src, tag);
  d.dst = Desc(dst, types.dst, tag);
  d.weights = Desc(weights, types.weights, layout == Layout::plain ? filters[first] : Tag::any);
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

dnnl::convolution_backward_data::primitive_desc describe_backward_data(const Context& c, const ConvDescs& d,
                                                                       const ConvDescs& forward) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(),       algorithm, d.src,        d.weights,   d.dst,
          d.strides,        d.dilates, d.pad_before, d.pad_after, describe_forward(c, forward),
          user_scratchpad()};
#else
  return {{algorithm, d.src, d.weights, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine(),
          describe_forward(c, forward)};
#endif
}

dnnl::convolution_backward_weights::primitive_desc describe_backward_weights(const Context& c, const ConvDescs& d,
                                                                             const ConvDescs& forward) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return sound({c.engine(), algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after,
                describe_forward(c, forward), user_scratchpad()},
               d);
#else
  return sound({{algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.dilates, d.pad_before, d.pad_after},
                user_scratchpad(),
                c.engine(),
                describe_forward(c, forward)},
               d);
#endif
}

DenseDescs describe_dense(Index in, Index out, Index rows, Layout layout, const TensorTypes& types) {
  const Tag tag = layout == Layout::any ? Tag::any : Tag::ab;
  const Tag weights = layout == Layout::plain ? Tag::ab : Tag::any;
  return {Desc({rows, in}, types.src, tag), Desc({out, in}, types.weights, weights), f32({out, in}, Tag::ab),
          f32({out}, Tag::a), Desc({rows, out}, types.dst, tag)};
}

dnnl::inner_product_forward::primitive_desc describe_forward(const Context& c, const DenseDescs& d) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), kind, d.src, d.weights, d.bias, d.dst, user_scratchpad()};
#else
  return {{kind, d.src, d.weights, d.bias, d.dst}, user_scratchpad(), c.engine()};
#endif
}

dnnl::inner_product_backward_data::primitive_desc describe_backward_data(const Context& c, const DenseDescs& d,
                                                                         const DenseDescs& forward) {
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), d.src, d.weights, d.dst, describe_forward(c, forward), user_scratchpad()};
#else
  return {{d.src, d.weights, d.dst}, user_scratchpad(), c.engine(), describe_forward(c, forward)};
#endif
}

dnnl::inner_product_backward_weights::primitive_desc describe_backward_weights(const Context& c, const DenseDescs& d,
                                                                               const DenseDescs& forward) {
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), d.src, d.weights, d.bias, d.dst, describe_forward(c, forward), user_scratchpad()};
#else
  return {{d.src, d.weights, d.bias, d.dst}, user_scratchpad(), c.engine(), describe_forward(c, forward)};
#endif
}

namespace {

using cpu::InstructionSet;

dnnl::cpu_isa in_onednn(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512: return dnnl::cpu_isa::avx512_core;
    case InstructionSet::avx2: return dnnl::cpu_isa::avx2;
    case InstructionSet::generic: break;
  }
  return dnnl::cpu_isa::sse41;  // the lowest limit that oneDNN accepts
}

}  // namespace

// oneDNN's values are bit sets.
InstructionSet instruction_set() {
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto within = [used](InstructionSet set) {
    const auto bits = static_cast<unsigned>(in_onednn(set));
    return (used & bits) == bits;
  };
  return within(InstructionSet::avx512) ? InstructionSet::avx512
         : within(InstructionSet::avx2) ? InstructionSet::avx2
                                        : InstructionSet::generic;
}

static bool uses(dnnl::cpu_isa set) {
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa()), bits = static_cast<unsigned>(set);
  return (used & bits) == bits;
}
bool has_bf16_products() { return uses(dnnl::cpu_isa::avx512_core_bf16); }
bool has_amx() { return uses(dnnl::cpu_isa::avx512_core_amx); }

void hold_to(InstructionSet set) {
  const dnnl::status status = dnnl::set_max_cpu_isa(in_onednn(set));
  MRMF_CHECK(status == dnnl::status::success, "oneDNN cannot be held to an instruction set any more: it is in use");
}

// Convolutions and dense layers by oneDNN's primitives.

std::unique_ptr<WeightedOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows,
                                      Factors factors) {
  return make_weighted(context, max_rows, factors, [geometry](Index rows, const TensorTypes& types) {
    return describe_conv(geometry, rows, Layout::channels_last, types);
  });
}

std::unique_ptr<WeightedOp> make_dense(const Context& context, Index in, Index out, Index max_rows,
                                       DenseWeights weights, Factors factors) {
  const Layout layout = weights == DenseWeights::packed ? Layout::channels_last : Layout::plain;
  return make_weighted(context, max_rows, factors, [in, out, layout](Index rows, const TensorTypes& types) {
    return describe_dense(in, out, rows, layout, types);
  });
}

}  // namespace mrmf::onednn
