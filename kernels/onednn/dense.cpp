// Dense layers by oneDNN's inner product.
#include "kernels/onednn/context.hpp"
#include "kernels/onednn/operations.hpp"
#include "kernels/onednn/pass.hpp"
#include "kernels/onednn/primitives.hpp"

namespace mrmf::onednn {
namespace {

class Dense final : public DenseOp {
 public:
  Dense(const Context& context, Index in, Index out, Index max_rows)
      : context_(context), in_(in), out_(out), max_rows_(max_rows) {
    Dense::prepare(max_rows);
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
  /// Only the blocked kernels of AVX-512 repay packed weights; a plain matrix product reads them as they are.
  DenseDescs descs(Index rows) const {
    const DenseDescs packed = describe_dense(in_, out_, rows, Layout::channels_last);
    const std::string implementation = dense_forward(context_, packed).impl_info_str();
    const bool blocked = implementation.find("brgemm") != std::string::npos;
    return blocked ? packed : describe_dense(in_, out_, rows, Layout::plain);
  }
  Pass& forward_pass(Index rows) {
    return forward_.at(rows, max_rows_, [&] {
      const DenseDescs d = descs(rows);
      const auto pd = dense_forward(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                   {DNNL_ARG_BIAS, d.bias},
                   {DNNL_ARG_DST, d.dst}});
    });
  }
  Pass& data_pass(Index rows) {
    return backward_data_.at(rows, max_rows_, [&] {
      const DenseDescs d = descs(rows);
      const auto pd = dense_backward_data(context_, d);
      return Pass(context_, pd, pd.weights_desc(), d.plain_weights, Direction::pack,
                  {{DNNL_ARG_DIFF_DST, d.dst}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DIFF_SRC, d.src}});
    });
  }
  Pass& weights_pass(Index rows) {
    return backward_weights_.at(rows, max_rows_, [&] {
      const DenseDescs d = descs(rows);
      const auto pd = dense_backward_weights(context_, d);
      return Pass(context_, pd, pd.diff_weights_desc(), d.plain_weights, Direction::unpack,
                  {{DNNL_ARG_SRC, d.src},
                   {DNNL_ARG_DIFF_DST, d.dst},
                   {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
                   {DNNL_ARG_DIFF_BIAS, d.bias}});
    });
  }

  const Context& context_;
  Index in_, out_, max_rows_;
  Passes forward_, backward_data_, backward_weights_;
};

}  // namespace

std::unique_ptr<DenseOp> make_dense(const Context& context, Index in, Index out, Index max_rows) {
  return std::make_unique<Dense>(context, in, out, max_rows);
}

}  // namespace mrmf::onednn
