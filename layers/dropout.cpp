// Dropout.
#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"

namespace mrmf {
namespace {

/// Dropout that keeps nothing: backward computes the mask anew.
class Dropout final : public Layer {
 public:
  Dropout(Backend& backend, const Shape& in, const LayerSpec& spec, const DropoutSettings& settings)
      : backend_(backend), settings_(settings), output_(in) {
    require(spec.rate >= 0 && spec.rate < 1, spec, fmt::format("rate {} must be at least 0 and below 1", spec.rate));
  }

  std::string signature() const override { return fmt::format("dropout {}", settings_.rate); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = 0, .in_place = true, .reads_input = false};
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    backend_.dropout(buffers.step, at(buffers.step), x, y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) backend_.dropout(buffers.step, at(buffers.step), dy, dx);
  }

 private:
  DropoutSettings at(const StepContext& step) const {
    DropoutSettings settings = settings_;
    if (step.dropout_factor != 1)
      settings.rate = std::min(settings.rate * step.dropout_factor, std::max(settings.rate, kMost));
    return settings;
  }

  static constexpr float kMost = 0.9F;  // of a rate that grows

  Backend& backend_;
  DropoutSettings settings_;
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(Backend& backend, const Shape& in, const LayerSpec& spec,
                                    const LayerPosition& position) {
  return std::make_unique<Dropout>(backend, in, spec,
                                   DropoutSettings{.layer = position.number,
                                                   .rate = spec.rate,
                                                   .first = position.output_begin,
                                                   .sample = position.sample_extent});
}

}  // namespace mrmf
