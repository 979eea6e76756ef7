#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

class Dense final : public WeightedOp {
 public:
  Dense(Index in, Index out, Index max_rows) : in_(in), out_(out), max_rows_(max_rows) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    check_rows(x.shape, max_rows_);
    for (Index row = 0; row < x.shape.n; ++row)
      for (Index o = 0; o < out_; ++o) {
        double sum = b[o];
        for (Index i = 0; i < in_; ++i) sum += double{x.data[row * in_ + i]} * w[o * in_ + i];
        y.data[row * out_ + o] = static_cast<float>(sum);
      }
  }

  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    check_rows(dy.shape, max_rows_);
    for (Index row = 0; row < dy.shape.n; ++row)
      for (Index i = 0; i < in_; ++i) {
        double sum = 0;
        for (Index o = 0; o < out_; ++o) sum += double{dy.data[row * out_ + o]} * w[o * in_ + i];
        dx.data[row * in_ + i] = static_cast<float>(sum);
      }
  }

  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    check_rows(x.shape, max_rows_);
    for (Index o = 0; o < out_; ++o) {
      double bias = 0;
      for (Index row = 0; row < x.shape.n; ++row) bias += dy.data[row * out_ + o];
      db[o] = static_cast<float>(bias);
      for (Index i = 0; i < in_; ++i) {
        double sum = 0;
        for (Index row = 0; row < x.shape.n; ++row) sum += double{dy.data[row * out_ + o]} * x.data[row * in_ + i];
        dw[o * in_ + i] = static_cast<float>(sum);
      }
    }
  }

 private:
  Index in_, out_, max_rows_;
};

}  // namespace

std::unique_ptr<WeightedOp> ReferenceBackend::dense(Index in, Index out, Index max_rows) {
  return std::make_unique<Dense>(in, out, max_rows);
}

}  // namespace mrmf::reference
