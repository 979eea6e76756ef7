#include <algorithm>

#include "layers/layers.hpp"

namespace mrmf {
namespace {

/// In channels-last order flattening is a change of shape alone; in place it does nothing.
class Flatten final : public Layer {
 public:
  explicit Flatten(const Shape& in) : output_{.n = in.n, .channels = in.per_sample()} {}

  std::string signature() const override { return "flatten"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .identity = true};
  }

  void forward(const Lent&, ConstTensor x, Tensor y) override { move(x.data, y.data); }
  void backward(const Lent&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override { move(dy.data, dx.data); }

 private:
  static void move(ConstSpan from, Span to) {
    if (!to.empty() && from.data() != to.data()) std::ranges::copy(from, to.begin());
  }

  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_flatten(const Shape& in) { return std::make_unique<Flatten>(in); }

}  // namespace mrmf
