#include "layers/conv_parameters.hpp"
#include "layers/geometry.hpp"
#include "layers/layers.hpp"
#include "layers/winner_cache.hpp"

namespace mrmf {
namespace {

class ConvPoolRelu final : public Layer {
 public:
  struct Parts {
    ConvGeometry conv;
    PoolGeometry pool;
    std::unique_ptr<ConvPoolOp> op;
  };
  ConvPoolRelu(Backend& backend, const Shape& in, const LayerSpec& conv, Parts parts)
      : conv_(parts.conv),
        same_padding_(conv.same_padding),
        initialiser_(conv.initialiser),
        weights_(static_cast<std::size_t>(conv_.weights())),
        output_(output_shape(in, parts.pool.out(), conv_.out_channels)),
        stored_(backend.stored(output_)),
        op_(std::move(parts.op)) {}

  /// The convolution's own: a fused and an unfused model may exchange parameters.
  std::string signature() const override { return conv_signature(conv_, output_.axes, same_padding_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = conv_parts(conv_, output_.axes),
            .state = {},
            .cache = winner_floats(stored_.count()),
            .in_place = false,
            .reads_output = true};
  }
  double flop() const override { return conv_flop(conv_); }
  void initialise(Rng& rng, Span params, Span) const override { initialise_conv(conv_, initialiser_, rng, params); }

  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const Lent& lent, ConstTensor x, Tensor y) override {
    op_->forward(x, lent.params.first(weights_), lent.params.subspan(weights_), y,
                 winners(lent.cache, stored_.rows(y.shape.n).count()));
  }
  void backward(const Lent& lent, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    op_->backward(x, y, dy, winners(lent.cache, stored_.rows(dy.shape.n).count()), lent.params.first(weights_),
                  lent.grads.first(weights_), lent.grads.subspan(weights_), dx);
  }

 private:
  ConvGeometry conv_;
  bool same_padding_;
  Initialiser initialiser_;
  std::size_t weights_;
  Shape output_, stored_;
  std::unique_ptr<ConvPoolOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_conv_pool_relu(Backend& backend, const Shape& in, const LayerSpec& conv,
                                           const LayerSpec& pool) {
  if (conv.kind != LayerKind::conv || pool.kind != LayerKind::max_pool) return nullptr;
  ConvPoolRelu::Parts parts;
  parts.conv = conv_geometry(in, conv);
  parts.pool = pool_geometry(output_shape(in, parts.conv.out(), parts.conv.out_channels), pool);
  if (parts.pool.stride != parts.pool.window) return nullptr;
  parts.op = backend.conv_pool_relu(parts.conv, parts.pool, in.n);
  if (!parts.op) return nullptr;
  return std::make_unique<ConvPoolRelu>(backend, in, conv, std::move(parts));
}

}  // namespace mrmf
