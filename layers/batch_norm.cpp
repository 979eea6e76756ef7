#include "layers/geometry.hpp"
#include "layers/layers.hpp"
#include "layers/norm_parameters.hpp"

namespace mrmf {
namespace {

class BatchNorm final : public Layer {
 public:
  BatchNorm(Backend& backend, const Shape& in, const LayerSpec& spec) : parameters_(in.channels), output_(in) {
    require(spec.momentum > 0 && spec.momentum <= 1, spec, "momentum must be above 0 and at most 1");
    require(spec.epsilon > 0, spec, "epsilon must be above 0");
    op_ = backend.norm({in.channels, spec.momentum, spec.epsilon}, in.n);
  }

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

std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<BatchNorm>(backend, in, spec);
}

}  // namespace mrmf
