// Some of a layer's channels, and a layer behind which nothing trains.
#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"

namespace mrmf {
namespace {

class Slice final : public Layer {
 public:
  Slice(Backend& backend, const Shape& in, const LayerSpec& spec) : backend_(backend), output_(in), first_(spec.first) {
    require(spec.units > 0 && spec.first + spec.units <= in.channels, spec,
            fmt::format("takes channels {} to {} of an input that has {}; take fewer", spec.first,
                        spec.first + spec.units - 1, in.channels));
    output_.channels = spec.units;
  }

  std::string signature() const override { return fmt::format("slice {}+{}", first_, output_.channels); }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = 0, .reads_input = false}; }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override {
    backend_.copy_channels(x, first_, y, 0, output_.channels);
  }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    backend_.fill(dx.data, 0);
    backend_.copy_channels(dy, 0, dx, first_, output_.channels);
  }

 private:
  Backend& backend_;
  Shape output_;
  Index first_;
};

/// Its output is its input, and the gradient of its input is zero.
class StopGradient final : public Layer {
 public:
  StopGradient(Backend& backend, const Shape& in) : backend_(backend), output_(in) {}

  std::string signature() const override { return "stop_gradient"; }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_input = false};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.reshape(x, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor dx) override {
    if (!dx.data.empty()) backend_.fill(dx.data, 0);
  }

 private:
  Backend& backend_;
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Slice>(backend, in, spec);
}

std::unique_ptr<Layer> make_stop_gradient(Backend& backend, const Shape& in, const LayerSpec&, const LayerPosition&) {
  return std::make_unique<StopGradient>(backend, in);
}

}  // namespace mrmf
