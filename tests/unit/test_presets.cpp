#include <doctest/doctest.h>

#include "kernels/check.hpp"
#include "kernels/nearest.hpp"
#include "src/presets.hpp"

using namespace mrmf;

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
