#include "layers/conv_parameters.hpp"
#include "layers/geometry.hpp"
#include "layers/layers.hpp"

namespace mrmf {
namespace {

class NormConv final : public Layer {
 public:
  NormConv(const Shape& in, const ConvGeometry& conv, std::unique_ptr<NormConvOp> op)
      : in_(in),
        conv_(conv),
        channels_(static_cast<std::size_t>(in.channels)),
        weights_(static_cast<std::size_t>(conv.weights())),
        biases_(static_cast<std::size_t>(conv.out_channels)),
        output_(output_shape(in, conv.out(), conv.out_channels)),
        op_(std::move(op)) {}

  std::string signature() const override { return "batch_norm + " + conv_signature(conv_, output_.axes, false); }
  Shape output() const override { return output_; }
  /// Parameters and state are listed by the two layers of the network.
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = statistics() + in_.count()}; }
  double flop() const override { return conv_flop(conv_); }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const Lent& lent, ConstTensor x, Tensor y) override {
    op_->forward(lent.step, {.x = x,
                             .memory = memory(lent),
                             .w = lent.params.subspan(conv_first(), weights_),
                             .b = lent.params.subspan(conv_first() + weights_, biases_),
                             .normalised = normalised(lent, x.shape),
                             .y = y});
  }
  void backward(const Lent& lent, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    MRMF_CHECK(dx.data.empty(), "a batch norm fused with its convolution gives no dx");
    op_->backward({.x = x,
                   .dy = dy,
                   .memory = memory(lent),
                   .w = lent.params.subspan(conv_first(), weights_),
                   .normalised = normalised(lent, x.shape),
                   .dgamma = lent.grads.first(channels_),
                   .dbeta = lent.grads.subspan(channels_, channels_),
                   .dw = lent.grads.subspan(conv_first(), weights_),
                   .db = lent.grads.subspan(conv_first() + weights_, biases_)});
  }

 private:
  std::size_t conv_first() const { return static_cast<std::size_t>(aligned(2 * in_.channels)); }
  Index statistics() const { return aligned(2 * in_.channels); }
  Span normalised(const Lent& lent, const Shape& shape) const {
    return lent.cache.subspan(static_cast<std::size_t>(statistics()), static_cast<std::size_t>(shape.count()));
  }
  NormMemory memory(const Lent& lent) const {
    return {.gamma = lent.params.first(channels_),
            .beta = lent.params.subspan(channels_, channels_),
            .running_mean = lent.state.first(channels_),
            .running_variance = lent.state.subspan(channels_, channels_),
            .mean = lent.cache.first(channels_),
            .inverse_deviation = lent.cache.subspan(channels_, channels_)};
  }

  Shape in_;
  ConvGeometry conv_;
  std::size_t channels_, weights_, biases_;
  Shape output_;
  std::unique_ptr<NormConvOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_norm_conv(Backend& backend, const Shape& in, const LayerSpec& norm, const LayerSpec& conv) {
  const ConvGeometry geometry = conv_geometry(in, conv);
  std::unique_ptr<NormConvOp> op = backend.norm_conv({in.channels, norm.momentum, norm.epsilon}, geometry, in.n);
  if (!op) return nullptr;
  return std::make_unique<NormConv>(in, geometry, std::move(op));
}

}  // namespace mrmf
