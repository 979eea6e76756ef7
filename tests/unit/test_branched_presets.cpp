#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/config/config.hpp"
#include "src/config/model_config.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;

namespace {

struct Expected {
  Index parameters;
  double flop;
  Shape output;
};

void check_branched_network(const std::string& preset, const PresetSizes& sizes, const Shape& sample,
                            const Expected& expected) {
  INFO(preset);
  const auto backend = make_reference_backend();
  const Network network(*backend, {sample, 1, preset_layers(preset, sizes), ""});
  CHECK(network.trainable() == expected.parameters);
  CHECK(network.flop() == doctest::Approx(expected.flop).epsilon(1e-9));
  CHECK(network.output().spatial == expected.output.spatial);
  CHECK(network.output().channels == expected.output.channels);
}

}  // namespace

// Parameters and FLOP are those that tests/peers/torch/branched.py prints of PyTorch's modules.
TEST_CASE("presets with branches are the networks that PyTorch has of the papers") {
  check_branched_network("unet3d", {.levels = {}, .width = {}, .outputs = 2, .norm = {}}, {0, {32, 32, 32}, 1, 3},
                         {1401986, 3514826752, {0, {32, 32, 32}, 2, 3}});
  check_branched_network("unet3d", {.levels = 2, .width = 8, .outputs = 5, .norm = NormKind::batch},
                         {0, {16, 8, 24}, 3, 3}, {85805, 75743232, {0, {16, 8, 24}, 5, 3}});
  check_branched_network("unet", {}, {0, {1, 64, 48}, 1, 2}, {483153, 215678976, {0, {1, 64, 48}, 1, 2}});
  check_branched_network("resnet", {.levels = {}, .width = {}, .outputs = 3, .norm = {}}, {0, {1, 1, 40}, 2, 1},
                         {243699, 3408128, {0, {1, 1, 1}, 3, 1}});
  check_branched_network("resnet", {.levels = 3, .width = 8, .outputs = 10, .norm = NormKind::group},
                         {0, {1, 15, 14}, 3, 2}, {44650, 3025120, {0, {1, 1, 1}, 10, 2}});
  check_branched_network("resnet", {.levels = {}, .width = {}, .outputs = 4, .norm = {}}, {0, {16, 16, 16}, 1, 3},
                         {2075076, 404358144, {0, {1, 1, 1}, 4, 3}});
}

TEST_CASE("presets with branches: the way up of a U-Net reads what was there before each pool") {
  const std::vector<LayerSpec> layers = preset_layers("unet");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::concat) continue;
    const auto pool = std::ranges::find(layers, "pool" + layers[i].name.substr(4), &LayerSpec::name);
    CHECK(layers[i].from == std::vector<std::string>{std::prev(pool)->name, layers[i - 1].name});
  }
}

TEST_CASE("presets with branches: all of a U-Net is transferred, of a residual network all but the dense layer") {
  const auto backend = make_reference_backend();
  const Network unet(*backend, {{0, {1, 16, 16}, 1, 2}, 1, preset_layers("unet"), ""});
  CHECK(mrmf::test::first_top(unet).empty());
  const Network resnet(*backend, {{0, {1, 16, 16}, 1, 2}, 1, preset_layers("resnet"), ""});
  CHECK(mrmf::test::first_top(resnet) == "output");
}

TEST_CASE("presets with branches: positions that the levels do not halve evenly are an error that says which") {
  const auto backend = make_reference_backend();
  CHECK_THROWS_WITH_AS(Network(*backend, {{0, {1, 1, 36}, 1, 1}, 1, preset_layers("unet"), ""}),
                       doctest::Contains("join3"), ConfigError);
}

TEST_CASE("presets with branches: sizes are keys of the model, and are written as they were read") {
  const std::string text = R"(
[data]
files = ["a.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "v", labels = "w" }
[model]
)";
  const Config config =
      parse_config(text + "preset = \"unet3d\"\nlevels = 2\nwidth = 8\noutputs = 3\nnorm = \"batch\"\n", "c.toml", {});
  CHECK(config.model.layers.back().units == 3);
  CHECK(parse_config(to_toml(config), "again", {}).model == config.model);
  CHECK_THROWS_WITH_AS(parse_config(text + "preset = \"cosmoflow\"\nlevels = 2\n", "c.toml", {}),
                       doctest::Contains("are for unet, unet3d and resnet"), ConfigError);
  CHECK_THROWS_WITH_AS(parse_config(text + "layers = [ { type = \"relu\" } ]\nlevels = 2\n", "c.toml", {}),
                       doctest::Contains("name one as model.preset"), ConfigError);
  CHECK_THROWS_WITH_AS(parse_config(text + "preset = \"resnet\"\nlevels = 9\n", "c.toml", {}),
                       doctest::Contains("levels"), ConfigError);
}
