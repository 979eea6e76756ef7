#include "layers/geometry.hpp"
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
    return {.params = {}, .state = {}, .cache = keeps_winners() ? winner_floats(stored_.count()) : 0};
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

}  // namespace

std::unique_ptr<Layer> make_pool(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Pool>(backend, in, spec);
}

}  // namespace mrmf
