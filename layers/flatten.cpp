// Flatten: positions and channels become one vector of features.
#include "layers/makers.hpp"

namespace mrmf {
namespace {

/// Flatten. In channels-last order it only changes the shape, so it does nothing in place, unless the backend pads the
/// channels of one of the two shapes.
class Flatten final : public Layer {
 public:
  Flatten(Backend& backend, const Shape& in)
      : backend_(backend),
        output_{.n = in.n, .channels = in.per_sample()},
        identity_(backend.stored(in).per_sample() == in.per_sample() && backend.stored(output_) == output_) {}

  std::string signature() const override { return "flatten"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = identity_, .identity = identity_, .reads_input = false};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.reshape(x, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) backend_.reshape(dy, dx);
  }

 private:
  Backend& backend_;
  Shape output_;
  bool identity_;
};

}  // namespace

std::unique_ptr<Layer> make_flatten(Backend& backend, const Shape& in, const LayerSpec&, const LayerPosition&) {
  return std::make_unique<Flatten>(backend, in);
}

}  // namespace mrmf
