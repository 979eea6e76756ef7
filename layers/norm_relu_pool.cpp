#include "layers/geometry.hpp"
#include "layers/layers.hpp"
#include "layers/norm_parameters.hpp"

namespace mrmf {
namespace {

class NormActivatePool final : public Layer {
 public:
  NormActivatePool(const Shape& in, const Shape& output, std::unique_ptr<NormOp> op)
      : parameters_(in.channels), output_(output), op_(std::move(op)) {}

  /// The batch norm's own: a fused and an unfused model may exchange parameters.
  std::string signature() const override { return parameters_.signature(); }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return parameters_.footprint(); }
  void initialise(Rng&, Span params, Span state) const override { parameters_.initialise(params, state); }

  void forward(const Lent& lent, ConstTensor x, Tensor y) override {
    op_->forward(lent.step, x, parameters_.memory(lent), y);
  }
  void backward(const Lent& lent, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward(lent.step, x, dy, parameters_.memory(lent), parameters_.first(lent.grads),
                  parameters_.second(lent.grads), dx);
  }

 private:
  NormParameters parameters_;
  Shape output_;
  std::unique_ptr<NormOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_norm_relu_pool(Backend& backend, const Shape& in, const NormReluPoolSpecs& specs) {
  if (in.axes == 0) return nullptr;
  NormReluPool settings{.norm = {in.channels, specs.norm.momentum, specs.norm.epsilon},
                        .in = in.spatial,
                        .axes = in.axes,
                        .slope = specs.relu.kind == LayerKind::leaky_relu ? specs.relu.slope : 0.0F,
                        .pool = {}};
  Shape output = in;
  if (specs.pool) {
    settings.pool = pool_geometry(in, *specs.pool);
    if (settings.pool->kind != PoolKind::average || settings.pool->stride != settings.pool->window) return nullptr;
    output = output_shape(in, settings.pool->out(), in.channels);
  }
  std::unique_ptr<NormOp> op = backend.norm_relu_pool(settings, in.n);
  if (!op) return nullptr;
  return std::make_unique<NormActivatePool>(in, output, std::move(op));
}

}  // namespace mrmf
