// Pooling and upsampling.
#include <fmt/format.h>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

class Pool final : public Layer {
 public:
  Pool(Backend& backend, const Shape& in, const LayerSpec& spec)
      : geometry_(pool_geometry(in, spec)),
        output_(output_shape(in, geometry_.out(), in.channels)),
        stored_(backend.stored(output_)),
        op_(backend.pool(geometry_, in.n)) {}

  std::string signature() const override {
    return std::string(keeps_winners() ? "max_pool" : "average_pool") + " k" +
           to_string(geometry_.window, output_.axes) + " s" + to_string(geometry_.stride, output_.axes);
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {},
            .state = {},
            .cache = keeps_winners() ? winner_floats(stored_.count()) : 0,
            .reads_input = false,
            .accepted_slices = {.x = op_->accepts_slices()}};
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, y, winners(buffers.cache, winner_bytes(y.shape)));
  }
  void backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward(dy, winners(buffers.cache, winner_bytes(dy.shape)), dx);
  }

 private:
  bool keeps_winners() const { return geometry_.kind == PoolKind::max; }
  Index winner_bytes(const Shape& y) const { return keeps_winners() ? stored_.with_rows(y.n).count() : 0; }

  PoolGeometry geometry_;
  Shape output_, stored_;
  std::unique_ptr<PoolOp> op_;
};

/// The root of the sum of squares over a window, over a group of neighbouring channels, or both:
/// y = sqrt(epsilon + sum x^2). Made of averages; those of channels see the channels as positions.
class L2Pool final : public Layer {
 public:
  L2Pool(Backend& backend, const Shape& in, const LayerSpec& spec)
      : backend_(backend), geometry_(pool_geometry(in, spec)), epsilon_(spec.root_epsilon), in_(in) {
    const Index groups = spec.groups == 0 ? in.channels : spec.groups;
    require(in.channels % groups == 0, spec, fmt::format("{} groups do not divide {} channels", groups, in.channels));
    const Index pooled = in.channels / groups;
    middle_ = output_shape(in, geometry_.out(), in.channels);
    output_ = output_shape(in, geometry_.out(), groups);
    if (middle_.spatial != in.spatial || product(geometry_.window) > 1) positions_ = backend.pool(geometry_, in.n);
    const auto as_positions = [&](Index count) {
      return Shape{.n = in.n, .spatial = {1, product(middle_.spatial), count}, .channels = 1, .axes = 2};
    };
    from_ = as_positions(in.channels), to_ = as_positions(groups);
    if (pooled > 1)
      channels_ = backend.pool({PoolKind::average, 1, from_.spatial, {1, 1, pooled}, {1, 1, pooled}}, in.n);
    summed_ = static_cast<float>(product(geometry_.window) * pooled);
    const auto room = [&](const Shape& shape, bool used) {
      const ArenaSpan span{cache_, used ? backend.activation_floats(shape) : 0};
      cache_ = aligned(span.end());
      return span;
    };
    squares_ = room(in, true);
    averages_ = room(middle_, positions_ != nullptr);
    from_at_ = room(from_, channels_ != nullptr), to_at_ = room(to_, channels_ != nullptr);
    last_ = room(output_, channels_ != nullptr);
  }

  std::string signature() const override {
    return fmt::format("l2_pool k{} s{} {}->{}", to_string(geometry_.window, output_.axes),
                       to_string(geometry_.stride, output_.axes), in_.channels, output_.channels);
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = cache_, .reads_output = true}; }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    const Index rows = x.shape.n;
    Tensor sums = tensor(buffers, squares_, in_, rows);
    backend_.activate(ActivationKind::square, summed_, x, sums);
    if (positions_) {
      const Tensor next = tensor(buffers, averages_, middle_, rows);
      positions_->forward(sums, next, {});
      sums = next;
    }
    if (channels_) {
      const Tensor from = tensor(buffers, from_at_, from_, rows), to = tensor(buffers, to_at_, to_, rows);
      backend_.reshape(sums, from);
      channels_->forward(from, to, {});
      sums = tensor(buffers, last_, output_, rows);
      backend_.reshape(to, sums);
    }
    backend_.activate(ActivationKind::root, epsilon_, sums, y);
  }

  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    const Index rows = x.shape.n;
    const Tensor squares = tensor(buffers, squares_, in_, rows);
    const Tensor averages = positions_ ? tensor(buffers, averages_, middle_, rows) : squares;
    const Tensor last = channels_ ? tensor(buffers, last_, output_, rows) : averages;
    backend_.activate_backward(ActivationKind::root, epsilon_, y, dy, last);
    if (channels_) {
      const Tensor from = tensor(buffers, from_at_, from_, rows), to = tensor(buffers, to_at_, to_, rows);
      backend_.reshape(last, to);
      channels_->backward(to, {}, from);
      backend_.reshape(from, averages);
    }
    if (positions_) positions_->backward(averages, {}, squares);
    backend_.activate_backward(ActivationKind::square, summed_, x, squares, dx);
  }

 private:
  Tensor tensor(const LayerBuffers& buffers, const ArenaSpan& span, const Shape& shape, Index rows) const {
    const Shape of = shape.with_rows(rows);
    return {of, span_at(buffers.cache, {span.first, backend_.activation_floats(of)})};
  }

  Backend& backend_;
  PoolGeometry geometry_;
  float epsilon_, summed_ = 1;  // the root's, and how many squares are summed
  Shape in_, middle_, output_, from_, to_;
  std::unique_ptr<PoolOp> positions_, channels_;  // null: not pooled
  Index cache_ = 0;
  ArenaSpan squares_, averages_, from_at_, to_at_, last_;  // in the cache
};

/// The mean over all positions, however many the resolution gives: a flat vector of channels.
class GlobalAveragePool final : public Layer {
 public:
  GlobalAveragePool(Backend& backend, const Shape& in)
      : pooled_{.n = in.n, .spatial = {1, 1, 1}, .channels = in.channels, .axes = in.axes},
        output_{.n = in.n, .channels = in.channels},
        op_(backend.pool({PoolKind::average, in.channels, in.spatial, in.spatial, in.spatial}, in.n)) {}

  std::string signature() const override { return "global_average_pool"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .reads_input = false}; }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override {
    op_->forward(x, {pooled_.with_rows(y.shape.n), y.data}, {});
  }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward({pooled_.with_rows(dy.shape.n), dy.data}, {}, dx);
  }

 private:
  Shape pooled_, output_;
  std::unique_ptr<PoolOp> op_;
};

class Upsample final : public Layer {
 public:
  Upsample(Backend& backend, const Shape& in, const LayerSpec& spec)
      : geometry_(upsample_geometry(in, spec)),
        output_(output_shape(in, geometry_.out(), in.channels)),
        op_(backend.upsample(geometry_, in.n)) {}

  std::string signature() const override {
    return std::string("upsample ") + (geometry_.kind == UpsampleKind::linear ? "linear" : "nearest") + " f" +
           to_string(geometry_.factor, output_.axes);
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {},
            .state = {},
            .reads_input = false,
            .accepted_slices = {.y = op_->accepts_slices(), .dy = op_->accepts_slices()}};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { op_->forward(x, y, {}); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward(dy, {}, dx);
  }

 private:
  UpsampleGeometry geometry_;
  Shape output_;
  std::unique_ptr<PoolOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_pool(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Pool>(backend, in, spec);
}

std::unique_ptr<Layer> make_l2_pool(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<L2Pool>(backend, in, spec);
}

std::unique_ptr<Layer> make_global_average_pool(Backend& backend, const Shape& in, const LayerSpec& spec,
                                                const LayerPosition&) {
  require(in.axes > 0, spec, "its input " + to_string(in) + " has no positions to average over");
  return std::make_unique<GlobalAveragePool>(backend, in);
}

std::unique_ptr<Layer> make_upsample(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Upsample>(backend, in, spec);
}

}  // namespace mrmf
