#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/layers.hpp"

namespace mrmf {
namespace {

class BatchNorm final : public Layer {
 public:
  BatchNorm(Backend& backend, const Shape& in, const LayerSpec& spec)
      : channels_(static_cast<std::size_t>(in.channels)), output_(in) {
    require(spec.momentum > 0 && spec.momentum <= 1, spec, "momentum must be above 0 and at most 1");
    require(spec.epsilon > 0, spec, "epsilon must be above 0");
    op_ = backend.norm({in.channels, spec.momentum, spec.epsilon}, in.n);
  }

  std::string signature() const override { return "batch_norm " + std::to_string(channels_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    const std::vector<Index> shape{output_.channels};
    return {.params = {{"gamma", shape}, {"beta", shape}},
            .state = {{"running_mean", shape}, {"running_variance", shape}},
            .cache = 2 * output_.channels};
  }
  void initialise(Rng&, Span params, Span state) const override {
    std::ranges::fill(first(params), 1.0F);
    std::ranges::fill(second(params), 0.0F);
    std::ranges::fill(first(state), 0.0F);
    std::ranges::fill(second(state), 1.0F);
  }

  void forward(const Lent& lent, ConstTensor x, Tensor y) override { op_->forward(lent.step, x, memory(lent), y); }
  void backward(const Lent& lent, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward(lent.step, x, dy, memory(lent), first(lent.grads), second(lent.grads), dx);
  }

 private:
  /// Parameters, gradients, state and cache are all two values per channel, one kind after the other.
  Span first(Span both) const { return both.first(channels_); }
  Span second(Span both) const { return both.subspan(channels_, channels_); }

  NormMemory memory(const Lent& lent) const {
    return {.gamma = lent.params.first(channels_),
            .beta = lent.params.subspan(channels_, channels_),
            .running_mean = first(lent.state),
            .running_variance = second(lent.state),
            .mean = first(lent.cache),
            .inverse_deviation = second(lent.cache)};
  }

  std::size_t channels_;
  Shape output_;
  std::unique_ptr<NormOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<BatchNorm>(backend, in, spec);
}

}  // namespace mrmf
