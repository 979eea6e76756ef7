#include "layers/geometry.hpp"
#include "layers/makers.hpp"

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
            .slices = {.x = op_->slices()}};
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, y, winners(buffers.cache, winner_bytes(y.shape)));
  }
  void backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward(dy, winners(buffers.cache, winner_bytes(dy.shape)), dx);
  }

 private:
  bool keeps_winners() const { return geometry_.kind == PoolKind::max; }
  Index winner_bytes(const Shape& y) const { return keeps_winners() ? stored_.rows(y.n).count() : 0; }

  PoolGeometry geometry_;
  Shape output_, stored_;
  std::unique_ptr<PoolOp> op_;
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
    op_->forward(x, {pooled_.rows(y.shape.n), y.data}, {});
  }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward({pooled_.rows(dy.shape.n), dy.data}, {}, dx);
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
    return {.params = {}, .state = {}, .reads_input = false, .slices = {.y = op_->slices(), .dy = op_->slices()}};
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

std::unique_ptr<Layer> make_pool(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Pool>(backend, in, spec);
}

std::unique_ptr<Layer> make_global_average_pool(Backend& backend, const Shape& in, const LayerSpec& spec) {
  require(in.axes > 0, spec, "its input " + to_string(in) + " has no positions to average over");
  return std::make_unique<GlobalAveragePool>(backend, in);
}

std::unique_ptr<Layer> make_upsample(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Upsample>(backend, in, spec);
}

}  // namespace mrmf
