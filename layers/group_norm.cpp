#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

/// Group norm, and layer norm as the group norm of one group: the statistics are over a sample's positions and a
/// group's channels, gamma and beta are per channel. Nothing depends on the batch. Ranks that share samples add up
/// their sums.
class GroupNorm final : public Layer {
 public:
  GroupNorm(Backend& backend, const Shape& in, const LayerSpec& spec, Index groups, Index sample_positions)
      : word_(to_string(spec.kind)),
        groups_(groups),
        channels_(static_cast<std::size_t>(in.channels)),
        places_(static_cast<std::size_t>(in.n * groups)),
        output_(in),
        op_(backend.group_norm({in.channels, groups, product(in.spatial), spec.epsilon, sample_positions}, in.n)) {}

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
            .cache = 2 * static_cast<Index>(places_),
            .slices = {.y = op_->slices()}};
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
            .inverse_deviation = buffers.cache.subspan(places_, used)};
  }

  std::string word_;
  Index groups_;
  std::size_t channels_, places_;  // a place: a group of a sample
  Shape output_;
  std::unique_ptr<NormOp> op_;
};

}  // namespace

// `sample_positions`: positions of a whole sample of which `in` is a block; 0: it is whole.
std::unique_ptr<Layer> make_group_norm(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       Index sample_positions) {
  require(spec.epsilon > 0, spec, "epsilon must be above 0");
  const Index groups = spec.kind == LayerKind::layer_norm ? 1 : spec.groups;
  require(groups >= 1 && in.channels % groups == 0, spec,
          fmt::format("{} groups do not divide the {} channels of its input {}", groups, in.channels, to_string(in)));
  require(std::max(sample_positions, product(in.spatial)) * (in.channels / groups) > 1, spec,
          fmt::format("a group of its input {} is a single value, whose norm is always 0; use fewer groups than {}",
                      to_string(in), groups));
  return std::make_unique<GroupNorm>(backend, in, spec, groups, sample_positions);
}

}  // namespace mrmf
