#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"

namespace mrmf {
namespace {

/// Dropout that keeps nothing: backward computes the mask anew.
class Dropout final : public Layer {
 public:
  Dropout(Backend& backend, const Shape& in, const LayerSpec& spec, std::uint64_t number)
      : backend_(backend), rate_(spec.rate), number_(number), output_(in) {
    require(rate_ >= 0 && rate_ < 1, spec, fmt::format("rate {} must be at least 0 and below 1", rate_));
  }

  std::string signature() const override { return fmt::format("dropout {}", rate_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_input = false};
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    backend_.dropout(buffers.step, number_, rate_, x, y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) backend_.dropout(buffers.step, number_, rate_, dy, dx);
  }

 private:
  Backend& backend_;
  float rate_;
  std::uint64_t number_;
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(Backend& backend, const Shape& in, const LayerSpec& spec, std::uint64_t number) {
  return std::make_unique<Dropout>(backend, in, spec, number);
}

}  // namespace mrmf
