// Layers without parameters that take values one by one, or make them: activations, dropout, the labels of the batch,
// and noise.
#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"

namespace mrmf {

// Activations: a function of each value by itself.

std::optional<ActivationKind> activation_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::relu: return ActivationKind::relu;
    case LayerKind::leaky_relu: return ActivationKind::leaky_relu;
    case LayerKind::tanh: return ActivationKind::tanh;
    case LayerKind::gelu: return ActivationKind::gelu;
    case LayerKind::silu: return ActivationKind::silu;
    case LayerKind::softplus: return ActivationKind::softplus;
    case LayerKind::sigmoid: return ActivationKind::sigmoid;
    default: return std::nullopt;
  }
}

namespace {

class Activation final : public Layer {
 public:
  Activation(Backend& backend, const Shape& in, const LayerSpec& spec)
      : backend_(backend),
        word_(to_string(spec.kind)),
        kind_(activation_of(spec.kind).value()),
        slope_(kind_ == ActivationKind::tanh ? spec.scale : spec.slope),
        output_(in) {
    const bool used = kind_ == ActivationKind::leaky_relu || kind_ == ActivationKind::tanh;
    require(!used || slope_ > 0, spec,
            fmt::format("{} {} must be above 0", kind_ == ActivationKind::tanh ? "scale" : "slope", slope_));
  }

  std::string signature() const override {
    switch (kind_) {
      case ActivationKind::leaky_relu: return fmt::format("leaky_relu {}", slope_);
      case ActivationKind::tanh: return slope_ == 1.0F ? "tanh" : fmt::format("tanh {}", slope_);
      default: return word_;
    }
  }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    const bool from_input = gradient_reads_input(kind_);
    return {.params = {},
            .state = {},
            .cache = 0,
            .in_place = !from_input,
            .reads_output = !from_input,
            .reads_input = from_input,
            .accepted_slices = {.x = backend_.accepts_slices(), .y = backend_.accepts_slices()}};
  }

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { backend_.activate(kind_, slope_, x, y); }
  void backward(const LayerBuffers&, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    const ConstTensor kept = gradient_reads_input(kind_) ? x : y;
    if (!dx.data.empty()) backend_.activate_backward(kind_, slope_, kept, dy, dx);
  }

 private:
  Backend& backend_;
  std::string word_;
  ActivationKind kind_;
  float slope_;  // as Backend::activate takes it
  Shape output_;
};

}  // namespace

std::unique_ptr<Layer> make_activation(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Activation>(backend, in, spec);
}

// Dropout.

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

  static constexpr float kMost = 0.9F;  // the most that a rate grows to

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

// Layers that read nothing of the network: the labels of the batch, and noise.

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
