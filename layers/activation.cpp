// Activations: a function of each value by itself.
#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"

namespace mrmf {

std::optional<ActivationKind> activation_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::relu: return ActivationKind::relu;
    case LayerKind::leaky_relu: return ActivationKind::leaky_relu;
    case LayerKind::tanh: return ActivationKind::tanh;
    case LayerKind::gelu: return ActivationKind::gelu;
    case LayerKind::silu: return ActivationKind::silu;
    case LayerKind::softplus: return ActivationKind::softplus;
    case LayerKind::sigmoid: return ActivationKind::sigmoid;
    default: return std::nullopt;
  }
}

namespace {

class Activation final : public Layer {
 public:
  Activation(Backend& backend, const Shape& in, const LayerSpec& spec)
      : backend_(backend),
        word_(to_string(spec.kind)),
        kind_(activation_of(spec.kind).value()),
        slope_(kind_ == ActivationKind::tanh ? spec.scale : spec.slope),
        output_(in) {
    const bool used = kind_ == ActivationKind::leaky_relu || kind_ == ActivationKind::tanh;
    require(!used || slope_ > 0, spec,
            fmt::format("{} {} must be above 0", kind_ == ActivationKind::tanh ? "scale" : "slope", slope_));
  }

  std::string signature() const override {
    switch (kind_) {
      case ActivationKind::leaky_relu: return fmt::format("leaky_relu {}", slope_);
      case ActivationKind::tanh: return slope_ == 1.0F ? "tanh" : fmt::format("tanh {}", slope_);
      default: return word_;
    }
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    const bool from_input = gradient_reads_input(kind_);
    return {.params = {},
            .state = {},
            .cache = 0,
            .in_place = !from_input,
            .reads_output = !from_input,
            .reads_input = from_input,
            .accepted_slices = {.x = backend_.accepts_slices(), .y = backend_.accepts_slices()}};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.activate(kind_, slope_, x, y); }
  void backward(const LayerBuffers&, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    const ConstTensor kept = gradient_reads_input(kind_) ? x : y;
    if (!dx.data.empty()) backend_.activate_backward(kind_, slope_, kept, dy, dx);
  }

 private:
  Backend& backend_;
  std::string word_;
  ActivationKind kind_;
  float slope_;  // as Backend::activate takes it
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_activation(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Activation>(backend, in, spec);
}

}  // namespace mrmf
