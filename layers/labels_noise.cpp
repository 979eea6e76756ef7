// Layers that read nothing of the network: the labels of the batch, and noise.
#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"

namespace mrmf {
namespace {

class Source : public Layer {
 public:
  Source(const Shape& in, const LayerSpec& spec) : output_{.n = in.n, .channels = spec.units} {
    require(spec.units > 0, spec, "units must be the numbers that it gives per sample");
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = 0, .reads_input = false}; }
  // What it was given has no gradient, and its input is the network's, of which it says nothing.
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor dx) override {
    MRMF_CHECK(dx.data.empty(), "a layer that reads nothing gives no gradient");
  }

 private:
  Shape output_;
};

/// All labels of a sample, as one list of numbers in the network's units. Zeros where there are none, as in prediction.
class LabelSource final : public Source {
 public:
  using Source::Source;
  std::string signature() const override { return fmt::format("labels {}", output().channels); }
  void forward(const LayerBuffers& buffers, ConstTensor, Tensor y) override {
    const ConstSpan labels = buffers.step.labels.data;
    if (labels.empty()) {
      std::ranges::fill(y.data, 0.0F);
      return;
    }
    MRMF_CHECK(buffers.step.labels.shape.count() == y.shape.count(), "other labels than the layer was made for");
    std::copy_n(labels.begin(), y.data.size(), y.data.begin());
  }
};

/// Normal numbers of mean 0 and deviation 1: a function of the seed, the step, the layer, the sample and the position.
/// Without the samples' ids, as in prediction, zeros.
class NoiseSource final : public Source {
 public:
  NoiseSource(const Shape& in, const LayerSpec& spec, std::uint64_t number) : Source(in, spec), number_(number) {}
  std::string signature() const override { return fmt::format("noise {}", output().channels); }
  void forward(const LayerBuffers& buffers, ConstTensor, Tensor y) override {
    const StepContext& step = buffers.step;
    if (!step.training || step.ids.empty()) {
      std::ranges::fill(y.data, 0.0F);
      return;
    }
    const auto width = static_cast<std::size_t>(output().channels);
    for (std::size_t row = 0; row < step.ids.size(); ++row) {
      Rng rng(mix(mix(step.seed, step.updates_done, kNoise), number_, static_cast<std::uint64_t>(step.ids[row])));
      for (float& value : y.data.subspan(row * width, width)) value = static_cast<float>(rng.normal());
    }
  }

 private:
  static constexpr std::uint64_t kNoise = 0x6e6f697365;  // apart from dropout's masks
  std::uint64_t number_;
};

void require_host(const Backend& backend, const LayerSpec& spec) {
  require(backend.synchronous(), spec, "networks of several parts train on the CPU; set run.device = \"cpu\"");
}

}  // namespace

std::unique_ptr<Layer> make_labels(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  require_host(backend, spec);
  return std::make_unique<LabelSource>(in, spec);
}

std::unique_ptr<Layer> make_noise(Backend& backend, const Shape& in, const LayerSpec& spec,
                                  const LayerPosition& position) {
  require_host(backend, spec);
  return std::make_unique<NoiseSource>(in, spec, position.number);
}

}  // namespace mrmf
