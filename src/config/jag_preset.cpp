// The preset "jag": networks for surrogates of implosions, after LLNL's macc (Anirudh et al., PNAS 2020) and its form
// in LBANN. An autoencoder makes a code of 20 numbers of what instruments see of a sample, the 15 scalars and all
// pixels. A discriminator keeps codes like normal numbers (Wasserstein autoencoder). Then a forward model predicts the
// code from the drive's 5 inputs, and an inverse model the inputs from the code.
#include <fmt/format.h>

#include "kernels/errors.hpp"
#include "src/config/keys.hpp"
#include "src/config/presets.hpp"

namespace mrmf {
namespace {

using enum LayerKind;

constexpr Index kScalars = 15, kInputs = 5, kCode = 20;
constexpr int kOutputs = 15 + 4 * 64 * 64;

/// A list of layers under construction.
class JagLayers {
 public:
  LayerSpec& add(LayerKind kind, const std::string& name, const std::string& from = "") {
    LayerSpec& spec = layers_.emplace_back();
    spec.kind = kind;
    spec.name = name;
    if (!from.empty()) spec.from = {from};
    return spec;
  }
  void pair(const std::string& name, const std::string& first, const std::string& second) {
    add(concat, name).from = {first, second};
  }
  /// Dense layers with an activation behind each but the last; "name1", "name1_silu", ..., and the last is `name`.
  void chain(const std::string& name, const std::string& from, const std::vector<Index>& units,
             const std::vector<LayerKind>& between) {
    std::string reads = from;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const bool last = i + 1 == units.size();
      const std::string own = last ? name : fmt::format("{}{}", name, i + 1);
      add(dense, own, reads).units = units[i];
      if (last) return;
      reads = own + "_" + to_string(between[i]);
      add(between[i], reads);
    }
  }
  /// The same layers on another input, with their weights, or frozen copies of them.
  void again(const std::string& name, const std::string& of, const std::string& from, const std::vector<Index>& units,
             const std::vector<LayerKind>& between, int every = 0) {
    const std::size_t first = layers_.size();
    chain(name, from, units, between);
    for (std::size_t i = first; i < layers_.size(); ++i)
      if (layers_[i].kind == dense) {
        layers_[i].weights_of = of + layers_[i].name.substr(name.size());
        layers_[i].every = every;
      }
  }
  void parts_of(const std::string& whole, Index outputs) {
    LayerSpec& scalars = add(slice, whole + "_scalars", whole);
    scalars.units = kScalars;
    LayerSpec& images = add(slice, whole + "_images", whole);
    images.first = kScalars;
    images.units = outputs - kScalars;
  }
  std::vector<LayerSpec> take() { return std::move(layers_); }

 private:
  std::vector<LayerSpec> layers_;
};

LossTerm term(const std::string& name, const std::string& output, const std::string& target, LossKind kind,
              float weight) {
  LossTerm one;
  one.name = name;
  one.output = output;
  one.target = target;
  one.loss = LossSettings::single(kind);
  one.weight = weight;
  return one;
}

LossTerm judgement(const std::string& name, const std::string& output, float value, float weight) {
  LossTerm one = term(name, output, "", LossKind::binary_cross_entropy, weight);
  one.value = value;
  return one;
}

PartConfig part(const std::string& name, std::optional<double> decay = {}) {
  PartConfig one;
  one.name = name;
  one.layers = {name + "*"};
  one.weight_decay = decay;
  return one;
}

}  // namespace

std::vector<LayerSpec> jag_layers(const PresetSizes& sizes) {
  if (sizes.levels || sizes.width || sizes.norm)
    throw ConfigError("levels, width and norm are for unet, unet3d and resnet; of jag only outputs can be set");
  const Index outputs = sizes.outputs.value_or(kOutputs);
  if (outputs <= kScalars)
    throw ConfigError(
        fmt::format("model.outputs is {}, and jag has 15 scalars and at least one pixel: 15 + 4 * 64 * 64 "
                    "for images of 64 x 64",
                    outputs));
  const std::vector<Index> decoder{64, 128, 256, outputs}, critic{128, 64, 1}, forward{32, 256, 1024, kCode},
      inverse{16, 128, 64, kInputs};
  const std::vector<LayerKind> smooth{silu, silu, silu}, kinks{relu, relu, relu};
  JagLayers list;
  list.add(labels, "answer").units = outputs;
  list.parts_of("answer", outputs);
  list.chain("encoder", "answer", {32, 256, 128, kCode}, {silu, tanh, tanh});
  list.chain("decoder", "encoder", decoder, smooth);
  list.parts_of("decoder", outputs);
  // The discriminator sees answers with codes: normal numbers are right, and the encoder's codes are not.
  list.add(noise, "prior").units = kCode;
  list.pair("right", "answer", "prior");
  list.chain("critic", "right", critic, kinks);
  list.add(stop_gradient, "code", "encoder");
  list.pair("wrong", "answer", "code");
  list.again("judge", "critic", "wrong", critic, kinks);
  list.pair("doubtful", "answer", "encoder");
  list.again("frozen", "critic", "doubtful", critic, kinks, 2);
  // From inputs to the code and back, and both in a circle.
  list.chain("inverse", "code", inverse, kinks);
  list.chain("forward", kInput, forward, kinks);
  list.again("circle_inputs", "inverse", "forward", inverse, kinks);
  list.again("circle_code", "forward", "inverse", forward, kinks);
  list.again("surrogate", "decoder", "forward", decoder, smooth);
  list.parts_of("surrogate", outputs);
  LayerSpec& last = list.add(slice, "prediction", "surrogate");
  last.units = outputs;
  return list.take();
}

PartsConfig preset_parts(const std::string& name, const PresetSizes&, int epochs) {
  if (name != "jag") return {};
  using enum LossKind;
  const float little = 1e-3F;
  const double decay = 1e-4;
  PartsConfig parts;
  parts.terms = {judgement("right", "critic", 1, 1),
                 judgement("wrong", "judge", 0, 1),
                 judgement("adversarial", "frozen", 1, 0.01F),
                 term("scalars", "decoder_scalars", "answer_scalars", mse, 1),
                 term("images", "decoder_images", "answer_images", mse, 1),
                 term("forward_code", "forward", "code", mse, 1),
                 term("forward_scalars", "surrogate_scalars", "answer_scalars", mse, 1),
                 term("forward_images", "surrogate_images", "answer_images", mse, 1),
                 term("inverse", "inverse", kInput, mse, 1),
                 term("circle_inputs", "circle_inputs", kInput, mse, little),
                 term("circle_code", "circle_code", "code", mse, little)};
  parts.parts = {part("encoder", decay), part("decoder", decay), part("critic", decay), part("forward"),
                 part("inverse")};
  const int half = std::max(1, epochs / 2);
  Turn autoencoder{.parts = {"encoder", "decoder", "critic"},
                   .terms = {"right", "wrong", "adversarial", "scalars", "images"},
                   .until = half};
  Turn surrogate{
      .parts = {"forward", "inverse"},
      .terms = {"forward_code", "forward_scalars", "forward_images", "inverse", "circle_inputs", "circle_code"},
      .since = half};
  parts.turns = {autoencoder, surrogate};
  return parts;
}

}  // namespace mrmf
