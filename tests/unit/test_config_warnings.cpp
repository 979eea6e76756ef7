// What is allowed and rarely meant: warnings before a run, by the configuration alone and by the samples' shape.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/plan/plan.hpp"
#include "tests/support/data_files.hpp"
#include "tests/unit/support/config_text.hpp"

using namespace mrmf;
using test::contains;

namespace {

std::vector<std::string> warned(const std::vector<std::string>& overrides, const char* text = kSmallest) {
  return config_warnings(parse_config(text, "c.toml", overrides));
}

Shape sample(std::vector<Index> sizes) {
  Shape shape;
  shape.channels = sizes.back();
  shape.axes = static_cast<int>(sizes.size()) - 1;
  for (std::size_t a = 0; a + 1 < sizes.size(); ++a) shape.spatial[4 - sizes.size() + a] = sizes[a];
  return shape;
}

std::vector<std::string> odd(std::vector<Index> sizes, const std::vector<std::string>& overrides = {}) {
  return sample_warnings(parse_config(kSmallest, "c.toml", overrides), sample(std::move(sizes)));
}

std::string channels_refusal(Index channels, std::vector<Index> sizes) {
  try {
    require_channels(parse_config(kSmallest, "c.toml", {"data.channels=" + std::to_string(channels)}).data,
                     sample(std::move(sizes)));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("configurations that mean what they say bring no warning") {
  CHECK(warned({}).empty());
  CHECK(warned({"method.name=mrmf", "method.resolutions=[[2],[1]]", "method.stop.coarse.epochs=3",
                "method.stop.dense.threshold=1e-3", "method.stop.dense.patience=2", "method.stop.finetune.epochs=2"})
            .empty());
  CHECK(warned({"method.stop.finetune.epochs=3"}).empty());  // a baseline reads what finetune says
  CHECK(warned({"training.optimizer.rule=plateau", "training.optimizer.patience=3", "training.optimizer.factor=0.5"})
            .empty());
  CHECK(warned({"training.optimizer.name=sgd", "training.optimizer.momentum=0.5"}).empty());
  CHECK(warned({"training.optimizer.name=lion"}).empty());  // its own beta2
  CHECK(warned({"training.optimizer.name=lion", "training.optimizer.beta1=0.8"}).empty());
}

TEST_CASE("keys that nothing reads are named") {
  const auto only = [](const std::vector<std::string>& overrides, const std::string& part) {
    const std::vector<std::string> lines = warned(overrides);
    REQUIRE(lines.size() == 1);
    CHECK_MESSAGE(contains(lines[0], part), lines[0]);
  };
  const std::string two = "method.resolutions=[[2],[1]]";
  only({"method.stop.coarse.epochs=3"}, "method.stop.coarse are set, and this plan (baseline) trains no coarse model");
  only({"method.name=mrt", two, "method.stop.dense.epochs=3"}, "this plan (mrt) trains no dense model");
  only({"method.name=mrmf", two, "method.top=interpolated", "method.dense.batch=8"}, "trains no dense model");
  only({"method.name=mrmf", two, "method.bottom=fresh", "method.coarse.batch=8"}, "trains no coarse model");
  only({"method.name=mrt", two, "method.stages=[{dense={epochs=2}}]"}, "trains no dense model");
  only({"method.name=mrmf", two, "method.team_shares=[5,3]"},
       "method.team_shares is set, and method.teams is \"sequential\"");
  only({"method.moments=carry"}, "a baseline fuses nothing");
  only({"training.optimizer.patience=3"}, "training.optimizer.patience is set, and only the rule \"plateau\" reads it");
  only({"training.optimizer.boundaries=[3]"}, "only the rule \"piecewise\"");
  only({"training.optimizer.factor=0.5"}, "\"plateau\" or \"piecewise\"");
  only({"training.optimizer.momentum=0.5"}, "the optimizer \"sgd\"");
  only({"training.optimizer.name=sgd", "training.optimizer.beta1=0.5"}, "\"adam\"");
  only({"training.optimizer.name=lion", "training.optimizer.epsilon=1e-5"}, "\"adam\" or \"adamw\"");
  only({"training.optimizer.name=lion", "training.optimizer.momentum=0.5"}, "the optimizer \"sgd\"");
  only({"training.momenta.tensors=[\"dense*\"]"}, "training.momenta.tensors is set, and only the rules");
  only({"training.momenta.every=3"}, "training.momenta.every is set, and only the rule \"every\"");
  only({"training.optimizer.name=lion", "training.momenta.rule=every", "training.momenta.spacing=3"}, "\"spaced\"");
  only({"data.split.seed=3"}, "data.split.seed is set, and data.split.by is \"given\", so data.validation names");
  only({"data.split.validation=0.4"}, "data.split.validation is set, and data.split.by is \"given\"");
}

TEST_CASE("keys of a random split are read by random splits alone") {
  const auto split = [](std::vector<std::string> more) {
    more.insert(more.end(), {"data.validation.samples=x", "data.validation.labels=y"});
    return warned(more);
  };
  CHECK(split({"data.split.by=rows", "data.split.seed=3", "data.split.validation=0.4"}).empty());
  const auto lines =
      split({"data.split.by=column", "data.split.column=fold", "data.split.seed=3", "data.split.validation=0.4"});
  REQUIRE(lines.size() == 2);
  CHECK(contains(lines[0], "data.split.validation is set, and data.split.by is \"column\""));
  CHECK(contains(lines[1], "data.split.seed is set, and data.split.by is \"column\""));
}

TEST_CASE("validation data that is training data, and is allowed to be, is named") {
  CHECK(warned({"data.validation.samples=x"}).empty());  // refused where the files are opened
  const auto lines = warned({"data.validation.samples=x", "data.duplicates=allow"});
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "the validation samples ('x' in neuron.h5) are training samples too"));
  CHECK(warned({"data.validation.samples=x", "data.duplicates=allow", "data.validation.files=other.h5"}).empty());
  CHECK(warned({"data.validation.samples=x", "data.duplicates=allow",
                "data.validation.files=[\"other.h5\", \"neuron.h5\"]"})
            .size() == 1);
}

TEST_CASE("validation data that is training data by another name is named") {
  const test::TemporaryFolder folder;
  const std::string one = folder.file("one.h5"), link = folder.file("link.h5"), other = folder.file("other.h5");
  for (const std::string& path : {one, other}) std::ofstream(path) << "text";
  std::filesystem::create_hard_link(one, link);
  const auto with = [&](const std::string& validation) {
    return warned({"data.files=[\"" + other + "\", \"" + one + "\"]", "data.validation.samples=x",
                   "data.duplicates=allow", "data.validation.files=" + validation});
  };
  REQUIRE(with(link).size() == 1);
  CHECK(contains(with(link)[0], "in " + link + ") are training samples too"));
  CHECK(with(folder.file("absent.h5")).empty());
}

TEST_CASE("shapes as published are taken as they are") {
  for (const std::vector<Index>& sizes : {std::vector<Index>{1600, 3},
                                          {128, 128, 128, 4},
                                          {32, 32, 32, 4},
                                          {100},
                                          {64},
                                          {1000, 64},
                                          {224, 224, 3},
                                          {64, 64, 16},
                                          {28, 28, 1},
                                          {512, 1},
                                          {8, 4},
                                          {16, 128, 128, 4},
                                          {8, 8, 8, 2}})
    CHECK_MESSAGE(odd(sizes).empty(), to_string(sample(sizes)));
}

TEST_CASE("shapes that look channels first, or without channels, are named with what to do") {
  const auto one = [](std::vector<Index> sizes) {
    const auto lines = odd(std::move(sizes));
    REQUIRE(lines.size() == 1);
    return lines[0];
  };
  CHECK(
      one({4, 32, 32, 32}) ==
      "samples stored as (n, 4, 32, 32, 32) are taken for 4x32x32 positions of 32 channels, since channels come last; "
      "if yours come first, set data.axes = \"n c z y x\"; if it is meant so, set data.channels = 32");
  CHECK(
      one({64, 48}) ==
      "samples stored as (n, 64, 48) are taken for 64 positions of 48 channels, since channels come last; if there is "
      "no axis of channels, set data.axes = \"n y x\"; if it is meant so, set data.channels = 48");
  CHECK(contains(one({3, 1600}), "set data.axes = \"n c x\""));
  CHECK(contains(one({3, 224, 224}), "set data.axes = \"n c y x\""));
  CHECK(contains(one({128, 128, 128}), "set data.axes = \"n z y x\""));
  CHECK(odd({64, 48}, {"data.channels=48"}).empty());
}

TEST_CASE("data.channels holds the data to what it says") {
  CHECK(channels_refusal(3, {1600, 3}) == "no error");
  CHECK(channels_refusal(4, {4, 32, 32, 32}) ==
        "data.channels = 4, and samples stored as (n, 4, 32, 32, 32) have 32 channels, their last axis; yours come "
        "first: set data.axes = \"n c z y x\"");
  CHECK(contains(channels_refusal(1, {64, 48}), "there is no axis of channels: set data.axes = \"n y x\""));
  CHECK(contains(channels_refusal(7, {64, 48}), "set data.channels to that"));
}

TEST_CASE("a size given once holds along every axis, and says so where it once did not") {
  const Config config = parse_config(kLayers, "c.toml", {});
  const auto lines = sample_warnings(config, sample({32, 32, 32, 4}));
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0],
                 "along all 3 axes; earlier versions took it for the last alone; it is given for pool2, conv2; a "
                 "list such as [3, 3, 3] means the same in both"));
  CHECK(sample_warnings(config, sample({3200, 4})).empty());

  Config resolved = config;
  resolve_axes(resolved.model.layers, 3);
  CHECK(resolved.model.layers[4].window == Extent{3, 3, 3});
  CHECK(resolved.model.layers[4].stride == Extent{2, 2, 2});
  CHECK(resolved.model.layers[5].window == Extent{4, 4, 4});
  CHECK(sample_warnings(resolved, sample({32, 32, 32, 4})).empty());
  CHECK(parse_config(to_toml(resolved), "written.toml", {}, Writer::run) == resolved);
  // As earlier versions wrote it, and one axis has only ever had one meaning.
  CHECK(to_toml(resolved).find("window = [3, 3, 3], stride = [2, 2, 2]") != std::string::npos);
  resolved = config;
  resolve_axes(resolved.model.layers, 1);
  CHECK(to_toml(resolved).find("window = [3], stride = [2]") != std::string::npos);
}

TEST_CASE("the network is built with a size for every axis, and keeps a list as it is") {
  const auto backend = make_reference_backend();
  const auto outputs = [&](const std::string& kernel, const Shape& in) {
    const std::string layers =
        "model.layers=[{type=\"conv\", filters=2, kernel=" + kernel + "}, {type=\"max_pool\", window=2}]";
    Config config = parse_config(kLayers, "c.toml", {layers, "model.cut=pool1"});
    return to_string(Network(*backend, {in, 1, config.model.layers, config.model.bottom}).output());
  };
  CHECK(outputs("3", sample({10, 10, 10, 1})) == "4x4x4x2");
  CHECK(outputs("[3]", sample({10, 10, 10, 1})) == "5x5x4x2");
  CHECK(outputs("3", sample({10, 10, 1})) == "4x4x2");
  CHECK(outputs("3", sample({10, 1})) == "4x2");
  CHECK_THROWS_WITH_AS(
      outputs("[3, 3]", sample({64, 48})),
      "conv1: window 1x3x3 is for more axes than its input 64x48 has: 1 axis of positions and 48 "
      "channels; give at most 1 number, or, if an axis is missing, store the samples with their channels "
      "as the last axis, 1 for a single one",
      ConfigError);
}
