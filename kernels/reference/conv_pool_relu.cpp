#include <vector>

#include "kernels/reference/backend.hpp"

namespace mrmf::reference {
namespace {

/// The fused operation as the composition of its parts.
class ConvPoolRelu final : public ConvPoolOp {
 public:
  ConvPoolRelu(const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows)
      : conv_(make_conv(conv, max_rows)),
        pool_(make_pool(pool, max_rows)),
        full_shape_{0, conv.out(), conv.out_channels, 3},
        full_(static_cast<std::size_t>(full_shape_.rows(max_rows).count())),
        rectified_(static_cast<std::size_t>(max_rows * product(pool.out()) * pool.channels)) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    const Tensor full = full_rows(x.shape.n);
    conv_->forward(x, w, b, full);
    pool_->forward(full, y, winner);
    activate(ActivationKind::relu, 0, y.data, y.data);
  }

  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                Span dw, Span db, Tensor dx) override {
    const Tensor full = full_rows(x.shape.n);
    const Tensor pooled{dy.shape, Span(rectified_).first(dy.data.size())};
    activate_backward(ActivationKind::relu, 0, y.data, dy.data, pooled.data);
    pool_->backward(pooled, winner, full);
    conv_->backward_weights(x, full, dw, db);
    if (!dx.data.empty()) conv_->backward_data(full, w, dx);
  }

 private:
  Tensor full_rows(Index rows) {
    const Shape shape = full_shape_.rows(rows);
    return {shape, Span(full_).first(static_cast<std::size_t>(shape.count()))};
  }

  std::unique_ptr<WeightedOp> conv_;
  std::unique_ptr<PoolOp> pool_;
  Shape full_shape_;
  std::vector<float> full_;       // the convolution's output, then its gradient
  std::vector<float> rectified_;  // dy behind the ReLU
};

}  // namespace

std::unique_ptr<ConvPoolOp> make_conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows) {
  if (pool.kind != PoolKind::max || pool.stride != pool.window) return nullptr;
  return std::make_unique<ConvPoolRelu>(conv, pool, max_rows);
}

}  // namespace mrmf::reference
