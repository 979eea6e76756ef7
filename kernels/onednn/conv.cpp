// Convolution by oneDNN: activations stay channels-last; weights are packed per call where a primitive wants them so.
#include "kernels/onednn/context.hpp"
#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/pass.hpp"

namespace mrmf::onednn {
namespace {

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeights = dnnl::convolution_backward_weights;

/// The geometry in oneDNN's terms: logical order n, c, spatial; leading unit axes dropped (at least one is kept).
struct ConvDescs {
  Desc src, weights, plain_weights, bias, dst;
  Dims strides, pad_before, pad_after;
};

ConvDescs describe(const ConvGeometry& g, Index rows) {
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
    d.pad_before.push_back(g.pad_before[a]);
    d.pad_after.push_back(g.pad_after[a]);
  }
  constexpr Tag activations[] = {Tag::ndhwc, Tag::nhwc, Tag::nwc};
  constexpr Tag filters[] = {Tag::odhwi, Tag::ohwi, Tag::owi};
  d.src = f32(src, activations[first]);
  d.dst = f32(dst, activations[first]);
  d.weights = f32(weights, Tag::any);
  d.plain_weights = f32(weights, filters[first]);
  d.bias = f32({g.out_channels}, Tag::x);
  return d;
}

// The one place per primitive that knows oneDNN 2 from 3.
Forward::primitive_desc forward_pd(const Context& c, const ConvDescs& d) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), kind,      algorithm,    d.src,       d.weights,        d.bias,
          d.dst,      d.strides, d.pad_before, d.pad_after, user_scratchpad()};
#else
  return {{kind, algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine()};
#endif
}

BackwardData::primitive_desc backward_data_pd(const Context& c, const ConvDescs& d) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), algorithm,    d.src,       d.weights,        d.dst,
          d.strides,  d.pad_before, d.pad_after, forward_pd(c, d), user_scratchpad()};
#else
  return {{algorithm, d.src, d.weights, d.dst, d.strides, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine(),
          forward_pd(c, d)};
#endif
}

BackwardWeights::primitive_desc backward_weights_pd(const Context& c, const ConvDescs& d) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {c.engine(), algorithm,    d.src,       d.weights,        d.bias,           d.dst,
          d.strides,  d.pad_before, d.pad_after, forward_pd(c, d), user_scratchpad()};
#else
  return {{algorithm, d.src, d.weights, d.bias, d.dst, d.strides, d.pad_before, d.pad_after},
          user_scratchpad(),
          c.engine(),
          forward_pd(c, d)};
#endif
}

class Conv final : public ConvOp {
 public:
  Conv(const Context& context, const ConvGeometry& geometry, Index max_rows)
      : context_(context), geometry_(geometry), max_rows_(max_rows) {
    Conv::prepare(max_rows);
  }

  void prepare(Index rows) override { forward_pass(rows), data_pass(rows), weights_pass(rows); }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    forward_pass(x.shape.n).with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run(context_, {x.data.data(), packed, b.data(), y.data.data()});
    });
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    data_pass(dy.shape.n).with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run(context_, {dy.data.data(), packed, dx.data.data()});
    });
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    weights_pass(x.shape.n).then_unpack(context_, dw.data(), [&](Bound& run, float* packed) {
      run(context_, {x.data.data(), dy.data.data(), packed, db.data()});
    });
  }

 private:
  Pass& forward_pass(Index rows) {
    return forward_.at(rows, max_rows_, [&] {
      const ConvDescs d = describe(geometry_, rows);
      const auto pd = forward_pd(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                   {DNNL_ARG_BIAS, d.bias},
                   {DNNL_ARG_DST, d.dst}});
    });
  }
  Pass& data_pass(Index rows) {
    return backward_data_.at(rows, max_rows_, [&] {
      const ConvDescs d = describe(geometry_, rows);
      const auto pd = backward_data_pd(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_DIFF_DST, d.dst}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, d.src}});
    });
  }
  Pass& weights_pass(Index rows) {
    return backward_weights_.at(rows, max_rows_, [&] {
      const ConvDescs d = describe(geometry_, rows);
      const auto pd = backward_weights_pd(context_, d);
      return Pass(context_, pd, pd.diff_weights_desc(), d.plain_weights, Direction::unpack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_DIFF_DST, d.dst},
                   {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, d.bias}});
    });
  }

  const Context& context_;
  ConvGeometry geometry_;
  Index max_rows_;
  Passes forward_, backward_data_, backward_weights_;
};

}  // namespace

std::unique_ptr<ConvOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<Conv>(context, geometry, max_rows);
}

}  // namespace mrmf::onednn
