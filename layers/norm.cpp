// Batch norm, group norm, layer norm, and local contrast normalisation.
#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"

namespace mrmf {

// Batch norm, group norm and layer norm.

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
            .accepted_slices = {.y = op_->accepts_slices()}};
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

/// The slope below zero of a ReLU or a leaky ReLU.
float slope_of(const LayerSpec& relu) { return relu.kind == LayerKind::leaky_relu ? relu.slope : 0.0F; }

}  // namespace

std::unique_ptr<Layer> make_batch_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const LayerPosition& position) {
  require(spec.momentum > 0 && spec.momentum <= 1, spec, "momentum must be above 0 and at most 1");
  require(spec.epsilon > 0, spec, "epsilon must be above 0");
  require_within(position.statistics_box, in);
  return std::make_unique<BatchNorm>(
      in.channels, in,
      backend.norm({in.channels, spec.momentum, spec.epsilon, in.spatial, position.statistics_box}, in.n));
}

std::optional<NormReluPool> norm_relu_pool_settings(const Shape& in, const LayerSpec& norm,
                                                    const std::optional<LayerSpec>& relu,
                                                    const std::optional<LayerSpec>& pool) {
  if (in.axes == 0) return std::nullopt;
  NormReluPool settings{.norm = {in.channels, norm.momentum, norm.epsilon, in.spatial, {}},
                        .in = in.spatial,
                        .axes = in.axes,
                        .slope = relu ? slope_of(*relu) : 1.0F,
                        .pool = {}};
  if (!pool) return settings;
  settings.pool = pool_geometry(in, *pool);
  if (settings.pool->kind != PoolKind::average || settings.pool->stride != settings.pool->window) return std::nullopt;
  return settings;
}

std::unique_ptr<Layer> make_norm_relu_pool(Backend& backend, const Shape& in, const NormReluPoolSpecs& specs) {
  const auto settings = norm_relu_pool_settings(in, specs.norm, specs.relu, specs.pool);
  if (!settings) return nullptr;
  std::unique_ptr<NormOp> op = backend.norm_relu_pool(*settings, in.n);
  if (!op) return nullptr;
  const Shape output = settings->pool ? output_shape(in, settings->pool->out(), in.channels) : in;
  return std::make_unique<BatchNorm>(in.channels, output, std::move(op));
}

namespace {

/// Group norm, and layer norm as the group norm of one group: the statistics are over a sample's positions and a
/// group's channels, gamma and beta are per channel. Nothing depends on the batch. Ranks that share samples add up
/// their sums. Alone or with the activation behind it, with the same parameters and signature.
class GroupNorm final : public Layer {
 public:
  GroupNorm(Backend& backend, const Shape& in, LayerKind kind, const GroupNormSettings& settings)
      : word_(to_string(kind)),
        groups_(settings.groups),
        channels_(static_cast<std::size_t>(in.channels)),
        statistics_count_(static_cast<std::size_t>(in.n * settings.groups)),
        output_(in),
        op_(backend.group_norm(settings, in.n)) {}

  /// "group_norm 32 g8", "layer_norm 32"
  std::string signature() const override {
    const std::string text = fmt::format("{} {}", word_, channels_);
    return word_ == to_string(LayerKind::group_norm) ? fmt::format("{} g{}", text, groups_) : text;
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    const std::vector<Index> shape{static_cast<Index>(channels_)};
    return {.params = {{"gamma", shape}, {"beta", shape}},
            .state = {},
            .cache = 2 * static_cast<Index>(statistics_count_),
            .accepted_slices = {.y = op_->accepts_slices()}};
  }
  void initialise(Rng&, Span params, Span) const override {
    std::ranges::fill(params.first(channels_), 1.0F);
    std::ranges::fill(params.subspan(channels_, channels_), 0.0F);
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(buffers.step, x, memory(buffers, x.shape.n), y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward(buffers.step, x, dy, memory(buffers, x.shape.n), buffers.grads.first(channels_),
                  buffers.grads.subspan(channels_, channels_), dx);
  }

 private:
  NormMemory memory(const LayerBuffers& buffers, Index rows) const {
    const auto used = static_cast<std::size_t>(rows * groups_);
    return {.gamma = buffers.params.first(channels_),
            .beta = buffers.params.subspan(channels_, channels_),
            .running_mean = {},
            .running_variance = {},
            .mean = buffers.cache.first(used),
            .inverse_deviation = buffers.cache.subspan(statistics_count_, used)};
  }

  std::string word_;
  Index groups_;
  std::size_t channels_, statistics_count_;  // statistics: of each group of each sample
  Shape output_;
  std::unique_ptr<NormOp> op_;
};

std::unique_ptr<Layer> group_norm_with(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const LayerPosition& position, float slope) {
  require(spec.epsilon > 0, spec, "epsilon must be above 0");
  const Index groups = spec.kind == LayerKind::layer_norm ? 1 : spec.groups;
  const Index sample_positions = product(position.sample_extent);  // the sample that `in` is a block of; 0: it is whole
  require(groups >= 1 && in.channels % groups == 0, spec,
          fmt::format("{} groups do not divide the {} channels of its input {}", groups, in.channels, to_string(in)));
  require(std::max(sample_positions, product(in.spatial)) * (in.channels / groups) > 1, spec,
          fmt::format("a group of its input {} is a single value, whose norm is always 0; use fewer groups than {}",
                      to_string(in), groups));
  return std::make_unique<GroupNorm>(
      backend, in, spec.kind,
      GroupNormSettings{in.channels, groups, product(in.spatial), spec.epsilon, sample_positions, slope});
}

}  // namespace

std::unique_ptr<Layer> make_group_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const LayerPosition& position) {
  return group_norm_with(backend, in, spec, position, 1);
}

std::unique_ptr<Layer> make_group_norm_relu(Backend& backend, const Shape& in, const LayerSpec& norm,
                                            const LayerSpec& relu, const LayerPosition& position) {
  return group_norm_with(backend, in, norm, position, slope_of(relu));
}

// Local contrast normalisation (Le et al., Building High-level Features Using Large Scale Unsupervised Learning, 2012).

namespace {

class LocalContrastNorm final : public Layer {
 public:
  LocalContrastNorm(Backend& backend, const Shape& in, const ContrastGeometry& geometry)
      : geometry_(geometry),
        output_(output_shape(in, geometry.out.count, in.channels)),
        kept_(kContrastFields * in.n * product(in.spatial)),
        op_(backend.contrast(geometry, in.n)) {}

  std::string signature() const override {
    return fmt::format("local_contrast_norm k{}", to_string(geometry_.window, output_.axes));
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = kept_}; }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override { op_->forward(x, buffers.cache, y); }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward(x, dy, buffers.cache, dx);
  }

 private:
  ContrastGeometry geometry_;
  Shape output_;
  Index kept_;
  std::unique_ptr<ContrastOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_local_contrast_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                                const LayerPosition& position) {
  return std::make_unique<LocalContrastNorm>(backend, in, contrast_geometry(in, spec, position));
}

}  // namespace mrmf
