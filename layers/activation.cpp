#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

ActivationKind kind_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::leaky_relu: return ActivationKind::leaky_relu;
    case LayerKind::tanh: return ActivationKind::tanh;
    default: return ActivationKind::relu;
  }
}

class Activation final : public Layer {
 public:
  Activation(Backend& backend, const Shape& in, const LayerSpec& spec)
      : backend_(backend),
        kind_(kind_of(spec.kind)),
        slope_(kind_ == ActivationKind::tanh ? spec.scale : spec.slope),
        output_(in) {
    const bool used = kind_ != ActivationKind::relu;
    require(!used || slope_ > 0, spec,
            fmt::format("{} {} must be above 0", kind_ == ActivationKind::tanh ? "scale" : "slope", slope_));
  }

  std::string signature() const override {
    switch (kind_) {
      case ActivationKind::leaky_relu: return fmt::format("leaky_relu {}", slope_);
      case ActivationKind::tanh: return slope_ == 1.0F ? "tanh" : fmt::format("tanh {}", slope_);
      case ActivationKind::relu: break;
    }
    return "relu";
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_output = true};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override {
    backend_.activate(kind_, slope_, x.data, y.data);
  }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor y, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) backend_.activate_backward(kind_, slope_, y.data, dy.data, dx.data);
  }

 private:
  Backend& backend_;
  ActivationKind kind_;
  float slope_;  // as Backend::activate takes it
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_activation(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Activation>(backend, in, spec);
}

}  // namespace mrmf
