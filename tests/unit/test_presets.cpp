#include <doctest/doctest.h>

#include "io/coarsen/coarsen.hpp"
#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "layers/network.hpp"
#include "src/config/model_config.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;

namespace {

struct Figures {
  Index parameters, flat, state;
  double gflop;
  Extent after_conv4;  ///< spatial size
};

// On cubes of 128^3 with four channels, averaged by `resolution`.
void check_on_cubes(const std::string& preset, const Extent& resolution, const Figures& expected) {
  INFO(preset << " at " << resolution[0] << " " << resolution[1] << " " << resolution[2]);
  const auto backend = make_reference_backend();
  const Shape cube{0, {128, 128, 128}, 4, 3};
  const Network network(*backend, {coarse_shape(cube, resolution), 1, preset_layers(preset), ""});
  CHECK(network.trainable() == expected.parameters);
  CHECK(network.flat_features() == expected.flat);
  CHECK(std::abs(network.flop() / 1e9 - expected.gflop) < 0.005);  // given to two decimals
  CHECK(network.output().per_sample() == 4);
  CHECK(mrmf::test::first_top(network) == "flatten");
  Index state = 0;
  for (const LayerEntry& entry : network.entries()) {
    state += entry.state.count;
    if (entry.name == "conv4") CHECK(entry.output().spatial == expected.after_conv4);
  }
  CHECK(state == expected.state);
}

std::string kinds(const std::vector<LayerSpec>& layers) {
  std::string text;
  for (const LayerSpec& layer : layers) text += (text.empty() ? "" : " ") + to_string(layer.kind);
  return text;
}

}  // namespace

TEST_CASE("neuron_inverter is the benchmark's network") {
  const std::vector<LayerSpec> layers = preset_layers("neuron_inverter");
  std::vector<std::string> names;
  for (const LayerSpec& layer : layers) names.push_back(layer.name);
  CHECK(names == std::vector<std::string>{
                     "conv1",   "pool1",       "relu1",  "conv2", "pool2",    "relu2",  "conv3", "pool3",    "relu3",
                     "flatten", "batch_norm1", "dense1", "relu4", "dropout1", "dense2", "relu5", "dropout2", "dense3",
                     "relu6",   "dropout3",    "dense4", "relu7", "dropout4", "dense5", "relu8", "dropout5", "dense6"});
  std::vector<Index> units;
  for (const LayerSpec& layer : layers) {
    if (layer.units > 0) units.push_back(layer.units);
    if (layer.kind == LayerKind::conv) CHECK(layer.window == Extent{1, 1, 4});
    if (layer.kind == LayerKind::max_pool) CHECK((layer.window == Extent{1, 1, 4} && layer.stride == layer.window));
    if (layer.kind == LayerKind::dropout) CHECK(layer.rate == 0.05F);
    CHECK(layer.initialiser == Initialiser::pytorch);
    CHECK_FALSE(layer.same_padding);
  }
  CHECK(units == std::vector<Index>{30, 90, 180, 512, 512, 512, 256, 128, 19});
  CHECK(layers[10].momentum == 0.1F);
  CHECK(layers[10].epsilon == 1e-5F);
}

TEST_CASE("cosmoflow is the published network") {
  const std::vector<LayerSpec> layers = preset_layers("cosmoflow");
  const std::string pooled = "conv batch_norm relu average_pool ", plain = "conv batch_norm relu ";
  CHECK(kinds(layers) == "batch_norm " + pooled + pooled + pooled + pooled + pooled + plain + plain +
                             "flatten dropout dense dropout relu dense dropout relu dense");
  std::vector<Index> units;
  for (const LayerSpec& layer : layers) {
    if (layer.units > 0) units.push_back(layer.units);
    if (layer.units > 0) CHECK(layer.initialiser == Initialiser::glorot);
    if (layer.kind == LayerKind::conv) {
      CHECK(layer.window == Extent{3, 3, 3});
      CHECK(layer.same_padding);
      CHECK(layer.stride == (layer.name == "conv4" ? Extent{2, 2, 2} : Extent{1, 1, 1}));
    }
    if (layer.kind == LayerKind::average_pool) CHECK((layer.window == Extent{2, 2, 2} && layer.stride == layer.window));
    if (layer.kind == LayerKind::dropout) CHECK(layer.rate == 0.05F);
    if (layer.kind == LayerKind::batch_norm) CHECK((layer.momentum == 0.01F && layer.epsilon == 1e-3F));
  }
  CHECK(units == std::vector<Index>{16, 32, 64, 128, 256, 256, 256, 2048, 256, 4});
}

// From the published Keras model's layer sizes (2 per multiply-add of convolutions and dense layers).
TEST_CASE("cosmoflow has the published sizes at every resolution of the paper") {
  check_on_cubes("cosmoflow", {1, 1, 1}, {9440668, 2048, 2024, 18.525, {8, 8, 8}});
  check_on_cubes("cosmoflow", {2, 1, 1}, {7343516, 1024, 2024, 9.263, {4, 8, 8}});
  check_on_cubes("cosmoflow", {1, 2, 1}, {7343516, 1024, 2024, 9.263, {8, 4, 8}});
  check_on_cubes("cosmoflow", {1, 1, 2}, {7343516, 1024, 2024, 9.263, {8, 8, 4}});
  check_on_cubes("cosmoflow", {2, 2, 1}, {6294940, 512, 2024, 4.632, {4, 4, 8}});
  check_on_cubes("cosmoflow", {2, 2, 2}, {5770652, 256, 2024, 2.317, {4, 4, 4}});
}

TEST_CASE("cosmoflow's strided convolution pads as TensorFlow does: the odd zero after, none before") {
  for (const LayerSpec& spec : preset_layers("cosmoflow")) {
    if (spec.name != "conv4") continue;
    const ConvGeometry even = conv_geometry({1, {16, 8, 4}, 64, 3}, spec);
    CHECK((even.pad_before == Extent{0, 0, 0} && even.pad_after == Extent{1, 1, 1} && even.out() == Extent{8, 4, 2}));
    const ConvGeometry odd = conv_geometry({1, {1, 3, 5}, 64, 3}, spec);
    CHECK((odd.pad_before == Extent{1, 1, 1} && odd.pad_after == Extent{1, 1, 1} && odd.out() == Extent{1, 2, 3}));
  }
}

TEST_CASE("cosmoflow says which pool has nothing left on small cubes") {
  const auto backend = make_reference_backend();
  CHECK_THROWS_WITH_AS(Network(*backend, {{0, {32, 32, 32}, 4, 3}, 1, preset_layers("cosmoflow"), ""}),
                       doctest::Contains("pool5: window 2x2x2 is larger than its input 1x1x1x256"), ConfigError);
}

TEST_CASE("cosmoflow_mlperf is the benchmark's network") {
  const std::vector<LayerSpec> layers = preset_layers("cosmoflow_mlperf");
  const std::string block = "conv max_pool leaky_relu ", hidden = "dense leaky_relu dropout ";
  CHECK(kinds(layers) == block + block + block + block + block + "flatten " + hidden + hidden + "dense tanh");
  for (const LayerSpec& layer : layers) {
    if (layer.kind == LayerKind::leaky_relu) CHECK(layer.slope == 0.3F);
    if (layer.kind == LayerKind::dropout) CHECK(layer.rate == 0.5F);
    if (layer.units > 0) CHECK(layer.initialiser == Initialiser::glorot);
  }
  CHECK(layers.back().scale == 1.2F);
  check_on_cubes("cosmoflow_mlperf", {1, 1, 1}, {8907556, 32768, 0, 68.86, {16, 16, 16}});
}

TEST_CASE("every listed preset can be had, another cannot") {
  for (const Preset& preset : preset_list()) {
    CHECK_FALSE(preset_layers(preset.name).empty());
    CHECK_FALSE(preset.description.empty());
    CHECK_FALSE(preset.sample.empty());
  }
  CHECK_THROWS_WITH_AS(
      preset_layers("neuron_invertor"),
      "there is no preset 'neuron_invertor'; did you mean 'neuron_inverter'? (mrmf presets lists them)", ConfigError);
}

TEST_CASE("names: given ones stay, a clash is an error") {
  std::vector<LayerSpec> layers(3);
  layers[1].name = "mine";
  name_layers(layers);
  CHECK(layers[0].name == "relu1");
  CHECK(layers[1].name == "mine");
  CHECK(layers[2].name == "relu3");
  layers[2].name = "relu1";
  CHECK_THROWS_WITH_AS(name_layers(layers), "two layers of the model are named 'relu1'; names must be unique",
                       ConfigError);
}

TEST_CASE("edit distance and the nearest word") {
  CHECK(edit_distance("batch", "batch") == 0);
  CHECK(edit_distance("bacth", "batch") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(nearest("mrfm", {"baseline", "mrt", "mrmf"}) == "mrmf");
  CHECK(nearest("zebra", {"batch", "seed"}).empty());
  CHECK(did_you_mean("bacth", {"seed", "batch"}) == "; did you mean 'batch'?");
  CHECK(did_you_mean("zebra", {"seed", "batch"}).empty());
}
