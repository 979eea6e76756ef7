#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

/// A batch norm, alone or with the layers that the backend runs behind it in the same pass. Parameters and signature
/// are those of the batch norm itself, so a fused and an unfused model may swap them.
class BatchNorm final : public Layer {
 public:
  BatchNorm(Index channels, const Shape& output, std::unique_ptr<NormOp> op)
      : channels_(static_cast<std::size_t>(channels)), output_(output), op_(std::move(op)) {}

  std::string signature() const override { return "batch_norm " + std::to_string(channels_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    const std::vector<Index> shape{static_cast<Index>(channels_)};
    return {.params = {{"gamma", shape}, {"beta", shape}},
            .state = {{"running_mean", shape}, {"running_variance", shape}},
            .cache = 2 * static_cast<Index>(channels_),
            .slices = {.y = op_->slices()}};
  }
  void initialise(Rng&, Span params, Span state) const override {
    std::ranges::fill(first(params), 1.0F);
    std::ranges::fill(second(params), 0.0F);
    std::ranges::fill(first(state), 0.0F);
    std::ranges::fill(second(state), 1.0F);
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(buffers.step, x, memory(buffers), y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward(buffers.step, x, dy, memory(buffers), first(buffers.grads), second(buffers.grads), dx);
  }

 private:
  /// Parameters, gradients, state and cache each hold two values per channel, one kind after the other.
  Span first(Span both) const { return both.first(channels_); }
  Span second(Span both) const { return both.subspan(channels_, channels_); }

  NormMemory memory(const LayerBuffers& buffers) const {
    return {.gamma = buffers.params.first(channels_),
            .beta = buffers.params.subspan(channels_, channels_),
            .running_mean = first(buffers.state),
            .running_variance = second(buffers.state),
            .mean = first(buffers.cache),
            .inverse_deviation = second(buffers.cache),
            .bias = buffers.bias};
  }

  std::size_t channels_;
  Shape output_;
  std::unique_ptr<NormOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const std::optional<Box>& counted) {
  require(spec.momentum > 0 && spec.momentum <= 1, spec, "momentum must be above 0 and at most 1");
  require(spec.epsilon > 0, spec, "epsilon must be above 0");
  require_within(counted, in);
  return std::make_unique<BatchNorm>(
      in.channels, in, backend.norm({in.channels, spec.momentum, spec.epsilon, in.spatial, counted}, in.n));
}

std::unique_ptr<Layer> make_norm_relu_pool(Backend& backend, const Shape& in, const NormReluPoolSpecs& specs) {
  if (in.axes == 0) return nullptr;
  NormReluPool settings{.norm = {in.channels, specs.norm.momentum, specs.norm.epsilon, in.spatial, {}},
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
  return std::make_unique<BatchNorm>(in.channels, output, std::move(op));
}

}  // namespace mrmf
