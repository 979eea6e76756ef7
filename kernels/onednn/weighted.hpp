// What convolution and dense layers share on oneDNN: three passes around weights, each prepared per number of rows and
// threads.
#pragma once

#include "kernels/onednn/pass.hpp"
#include "kernels/onednn/primitives.hpp"

namespace mrmf::onednn {

/// Describe: rows -> ConvDescs or DenseDescs.
template <class Describe>
class Weighted final : public WeightedOp {
 public:
  Weighted(const Context& context, Index max_rows, Describe describe)
      : context_(context), max_rows_(max_rows), describe_(std::move(describe)) {}

  void prepare(Index rows) override {
    const ThreadScope threads(context_.threads());
    forward_pass(rows), data_pass(rows), weights_pass(rows);
  }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    const ThreadScope threads(context_.threads());
    forward_pass(x.shape.n).with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run(context_, {x.data.data(), packed, b.data(), y.data.data()});
    });
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    const ThreadScope threads(context_.threads());
    data_pass(dy.shape.n).with_packed(context_, w.data(), [&](Bound& run, const float* packed) {
      run(context_, {dy.data.data(), packed, dx.data.data()});
    });
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    const ThreadScope threads(context_.threads());
    weights_pass(x.shape.n).then_unpack(context_, dw.data(), [&](Bound& run, float* packed) {
      run(context_, {x.data.data(), dy.data.data(), packed, db.data()});
    });
  }

 private:
  Pass& forward_pass(Index rows) {
    return forward_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows);
      const auto pd = describe_forward(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                   {DNNL_ARG_BIAS, d.bias},
                   {DNNL_ARG_DST, d.dst}});
    });
  }
  Pass& data_pass(Index rows) {
    return backward_data_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows);
      const auto pd = describe_backward_data(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_DIFF_DST, d.dst}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, d.src}});
    });
  }
  Pass& weights_pass(Index rows) {
    return backward_weights_.at(rows, max_rows_, [&] {
      const auto d = describe_(rows);
      const auto pd = describe_backward_weights(context_, d);
      return Pass(context_, pd, pd.diff_weights_desc(), d.plain_weights, Direction::unpack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_DIFF_DST, d.dst},
                   {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, d.bias}});
    });
  }

  const Context& context_;
  Index max_rows_;
  Describe describe_;
  Passes forward_, backward_data_, backward_weights_;
};

template <class Describe>
std::unique_ptr<WeightedOp> make_weighted(const Context& context, Index max_rows, Describe describe) {
  return std::make_unique<Weighted<Describe>>(context, max_rows, std::move(describe));
}

}  // namespace mrmf::onednn
