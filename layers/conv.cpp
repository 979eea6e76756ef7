#include "layers/conv_parameters.hpp"
#include "layers/geometry.hpp"
#include "layers/layers.hpp"

namespace mrmf {
namespace {

class Conv final : public Layer {
 public:
  Conv(Backend& backend, const Shape& in, const LayerSpec& spec)
      : geometry_(conv_geometry(in, spec)),
        same_padding_(spec.same_padding),
        initialiser_(spec.initialiser),
        weights_(static_cast<std::size_t>(geometry_.weights())),
        output_(output_shape(in, geometry_.out(), geometry_.out_channels)),
        op_(backend.conv(geometry_, in.n)) {}

  std::string signature() const override { return conv_signature(geometry_, output_.axes, same_padding_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = conv_parts(geometry_, output_.axes), .state = {}}; }
  double flop() const override { return conv_flop(geometry_); }
  void initialise(Rng& rng, Span params, Span) const override { initialise_conv(geometry_, initialiser_, rng, params); }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const Lent& lent, ConstTensor x, Tensor y) override {
    op_->forward(x, lent.params.first(weights_), lent.params.subspan(weights_), y);
  }
  void backward(const Lent& lent, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward_weights(x, dy, lent.grads.first(weights_), lent.grads.subspan(weights_));
    if (!dx.data.empty()) op_->backward_data(dy, lent.params.first(weights_), dx);
  }

 private:
  ConvGeometry geometry_;
  bool same_padding_;
  Initialiser initialiser_;
  std::size_t weights_;
  Shape output_;
  std::unique_ptr<WeightedOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_conv(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Conv>(backend, in, spec);
}

}  // namespace mrmf
