// Reading a configuration: what is accepted, what comes out, and that it survives being written and read again.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "tests/unit/support/config_text.hpp"

using namespace mrmf;

TEST_CASE("the documented example is read as it says") {
  const Config c = parse_config(kExample, "example.toml", {});
  CHECK(c.data.train.files == std::vector<std::string>{"neuron.h5"});
  CHECK(c.data.validation.files == c.data.train.files);
  CHECK(c.data.train.samples == "train_frames");
  CHECK(c.data.validation.labels == "val_unitStar_par");
  CHECK(c.data.train.layout == SampleLayout::reinterpret);
  CHECK(c.data.validation.layout == SampleLayout::reinterpret);
  CHECK(c.model.layers.size() == 27);
  CHECK(c.training.optimizer.rule == RateRule::cosine);
  CHECK(c.training.optimizer.learning_rate == 2e-3);
  CHECK(c.training.loss == LossSettings::single(LossKind::mae));
  CHECK(c.training.batch == 256);
  CHECK(c.training.seed == 7);
  CHECK_FALSE(c.training.global_batch_norm);
  CHECK(c.method.name == MethodName::mrmf);
  CHECK(c.method.resolutions == std::vector<Extent>{{1, 1, 4}, {1, 1, 2}, {1, 1, 1}});
  CHECK(c.method.top == TopRule::interpolated);
  CHECK(c.method.moments == MomentTransfer::carry);
  CHECK(c.method.curve == RateScope::run);
  CHECK(c.method.coarse.threshold == 2e-3);
  CHECK(c.method.coarse.patience == 3);
  CHECK(c.method.coarse.batch == 2048);
  CHECK(c.method.coarse.rule == RateRule::constant);
  CHECK(c.method.finetune.epochs == 40);
  CHECK_FALSE(c.method.dense.batch.has_value());
  REQUIRE(c.method.stages.size() == 2);
  CHECK(c.method.stages[0].coarse.epochs == 8);
  CHECK(c.method.stages[1].dense.learning_rate == 5e-4);
  CHECK(c.method.target == 0.04);
  CHECK(c.run.folder == "runs/two-fusions");
  CHECK(c.run.threads == 2);
}

TEST_CASE("memory is a number of GB, or a text with its unit") {
  const auto memory = [](const std::string& value) {
    const Config c = parse_config(kSmallest, "small.toml", {"data.memory=" + value});
    CHECK(parse_config(to_toml(c), "again", {}) == c);
    return c.data.memory.value_or(0);
  };
  CHECK(memory("8") == 8);
  CHECK(memory("0.5") == 0.5);
  CHECK(memory("\"8 GB\"") == 8);
  CHECK(memory("500 MB") == 0.5);
  CHECK(memory("1.5TB") == 1500);
  CHECK(memory("1 GiB") == 1.073741824);
  for (const char* wrong : {"0", "-1", "8 Gb", "\"8\"", "GB", "8 GB more", "true"})
    CHECK_THROWS_AS(memory(wrong), ConfigError);
}

TEST_CASE("what is not written keeps its default") {
  const Config c = parse_config(kSmallest, "small.toml", {});
  CHECK(c.training == TrainingConfig{});
  CHECK(c.method == MethodConfig{});
  CHECK(c.run == RunConfig{});
  CHECK(c.data.shuffle);
}

TEST_CASE("layers: fields, defaults and names") {
  const Config c = parse_config(kLayers, "layers.toml", {});
  const std::vector<LayerSpec>& layers = c.model.layers;
  REQUIRE(layers.size() == 10);
  CHECK(layers[0].units == 16);
  CHECK(layers[0].window == Extent{3, 3, 3});
  CHECK(layers[0].stride == Extent{1, 1, 1});
  CHECK(layers[0].same_padding);
  CHECK(layers[0].initialiser == Initialiser::glorot);
  CHECK(layers[1].name == "norm");
  CHECK(layers[1].momentum == 0.01F);
  CHECK(layers[1].epsilon == 1e-3F);
  CHECK(layers[2].slope == 0.3F);
  CHECK(layers[3].window == Extent{2, 2, 2});
  CHECK(layers[3].stride == Extent{2, 2, 2});
  CHECK(layers[4].stride == Extent{1, 1, 2});
  CHECK(layers[4].name == "pool2");
  CHECK(layers[5].window == Extent{1, 1, 4});
  CHECK(layers[5].name == "conv2");
  CHECK(layers[0].pad_before == Extent{0, 0, 0});
  CHECK(layers[5].pad_before == Extent{1, 0, 2});
  CHECK(layers[5].pad_after == Extent{1, 0, 3});
  CHECK_FALSE(layers[5].same_padding);
  CHECK(layers[7].rate == 0.5F);
  CHECK(layers[8].units == 4);
  CHECK(layers[9].scale == 1.0F);
  CHECK(c.model.bottom.cut == "flatten");
}

TEST_CASE("layers: keys of transposed convolutions, norms and upsampling") {
  const std::string text = std::string(kSmallest).substr(0, std::string(kSmallest).find("preset")) + R"(layers = [
    { type = "conv", filters = 4, kernel = 3, dilation = 2 },
    { type = "conv_transpose", filters = 3, kernel = [2], stride = [2], dilation = 1 },
    { type = "group_norm", groups = 3, epsilon = 1e-3 }, { type = "layer_norm" },
    { type = "upsample", factor = 2, mode = "linear" }, { type = "upsample", factor = [2, 1] },
    { type = "global_average_pool" }, { type = "gelu" }])";
  const Config c = parse_config(text, "layers.toml", {});
  std::vector<LayerSpec> layers = c.model.layers;
  resolve_axes(layers, 3);
  REQUIRE(layers.size() == 8);
  CHECK(layers[0].dilation == Extent{2, 2, 2});
  CHECK(layers[1].kind == LayerKind::conv_transpose);
  CHECK(layers[1].units == 3);
  CHECK(layers[1].stride == Extent{1, 1, 2});
  CHECK(layers[1].dilation == Extent{1, 1, 1});
  CHECK(layers[2].groups == 3);
  CHECK(layers[2].epsilon == 1e-3F);
  CHECK(layers[4].window == Extent{2, 2, 2});
  CHECK(layers[4].mode == UpsampleKind::linear);
  CHECK(layers[5].window == Extent{1, 2, 1});
  CHECK(layers[5].mode == UpsampleKind::nearest);
  CHECK(layers[6].name == "global_average_pool1");
  const std::string written = to_toml(c);
  CHECK(written.find("dilation = 2") != std::string::npos);
  CHECK(written.find("dilation = [") == std::string::npos);  // files of networks without it stay as they were
  CHECK(parse_config(written, "written.toml", {}) == c);
  CHECK_THROWS_WITH_AS(parse_config(text, "c.toml", {"model.layers[4].factor=0"}), doctest::Contains("at least 1"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(parse_config(text, "c.toml", {"model.layers[4].mode=cubic"}),
                       doctest::Contains("nearest, linear"), ConfigError);
}

TEST_CASE("the effective configuration reads back to an equal one") {
  for (const char* text : {kExample, kSmallest, kLayers}) {
    const Config c = parse_config(text, "config.toml", {});
    const std::string written = to_toml(c);
    CHECK(parse_config(written, "written.toml", {}) == c);
    CHECK(to_toml(parse_config(written, "written.toml", {})) == written);
  }
  const Config scaled = parse_config(kLayers, "layers.toml", {"model.layers[9].scale=1.2"});
  CHECK(scaled.model.layers[9].scale == 1.2F);
  CHECK(parse_config(to_toml(scaled), "written.toml", {}) == scaled);
  Config odd = parse_config(kSmallest, "config.toml", {});
  odd.run.folder = "a \"quoted\" \\ folder\twith a tab";
  odd.training.optimizer.learning_rate = 0.1 + 0.2;  // needs 17 digits
  odd.training.optimizer.epsilon = 1e-300;
  odd.method.target = 100000000;
  CHECK(parse_config(to_toml(odd), "written.toml", {}) == odd);
}

TEST_CASE("written values look as a person would write them") {
  const std::string text = to_toml(parse_config(kExample, "config.toml", {}));
  CHECK(text.find("resolutions = [[4], [2], [1]]\n") != std::string::npos);
  CHECK(text.find("optimizer.learning_rate = 0.002\n") != std::string::npos);
  CHECK(text.find("stop.coarse.threshold = 0.002\n") != std::string::npos);
  CHECK(text.find("preset = \"neuron_inverter\"\n") != std::string::npos);
  CHECK(text.find("  { coarse.epochs = 8 },\n") != std::string::npos);
}

TEST_CASE("padding: a word, a number, or what goes before and after each axis") {
  const auto padded = [](const std::string& padding) {
    return parse_config(kLayers, "c.toml", {"model.layers[0].padding=" + padding}).model.layers[0];
  };
  CHECK(padded("same").same_padding);
  CHECK_FALSE(padded("valid").same_padding);
  CHECK(padded("[2]").pad_before == Extent{0, 0, 2});
  CHECK(padded("[2]").pad_after == Extent{0, 0, 2});
  std::vector<LayerSpec> once{padded("2")};
  resolve_axes(once, 3);
  CHECK(once[0].pad_before == Extent{2, 2, 2});
  CHECK(once[0].pad_after == Extent{2, 2, 2});
  CHECK_FALSE(padded("2").same_padding);
  CHECK(padded("[1, 2]").pad_after == Extent{0, 1, 2});
  CHECK(padded("[[1, 2]]").pad_before == Extent{0, 0, 1});
  CHECK(padded("[[1, 2]]").pad_after == Extent{0, 0, 2});
  const auto written = [](const std::string& padding) {
    const Config c = parse_config(kLayers, "c.toml", {"model.layers[0].padding=" + padding});
    CHECK(parse_config(to_toml(c), "written.toml", {}) == c);
    const std::string text = to_toml(c);
    const std::size_t start = text.find("padding = ") + 10;
    return text.substr(start, text.find(", initialiser") - start);
  };
  CHECK(written("2") == "2");
  CHECK(written("[2]") == "[2]");
  CHECK(written("[[1, 2], 0]") == "[[1, 2], 0]");
  CHECK(written("same") == "\"same\"");
  CHECK(written("[0, 0]") == "\"valid\"");
}

TEST_CASE("resolutions remember for how many axes they were given") {
  const auto with = [](const std::string& resolutions) {
    return parse_config(kSmallest, "c.toml", {"method.name=mrmf", "method.resolutions=" + resolutions});
  };
  CHECK(with("[[4], [2], [1]]").method.axes == 1);
  CHECK(with("[2, 1]").method.axes == 1);
  CHECK(with("[[2, 2, 2], [1]]").method.axes == 3);
  CHECK(with("[[1, 1, 2], [1, 1, 1]]").method.axes == 3);
  CHECK(parse_config(kSmallest, "c.toml", {}).method.axes == 0);
  CHECK(parse_config(kSmallest, "c.toml", {"method.resolutions=[[1]]"}).method.axes == 0);
  for (const char* resolutions : {"[[1, 1, 2], [1]]", "[[2, 4], [1, 2], [1, 1]]"}) {
    const Config c = with(resolutions);
    CHECK(parse_config(to_toml(c), "written.toml", {}) == c);
  }
  CHECK(to_toml(with("[[1, 1, 2], [1]]")).find("resolutions = [[1, 1, 2], [1, 1, 1]]\n") != std::string::npos);
}

TEST_CASE("overrides set, replace and reach into lists") {
  const std::vector<std::string> overrides{"training.batch=64",
                                           "training.optimizer.rule=linear",
                                           "run.folder=7",
                                           "run.device = \"cpu\"",
                                           "method.resolutions=[[2],[1]]",
                                           "method.stages=[]",
                                           "method.stop.coarse={epochs = 5}",
                                           "data.files=[\"a.h5\", \"b.h5\"]"};
  const Config c = parse_config(kExample, "config.toml", overrides);
  CHECK(c.training.batch == 64);
  CHECK(c.training.optimizer.rule == RateRule::linear);
  CHECK(c.run.folder == "7");
  CHECK(c.run.device == Device::cpu);
  CHECK(c.method.resolutions.size() == 2);
  CHECK(c.method.stages.empty());
  CHECK(c.method.coarse.epochs == 5);
  CHECK_FALSE(c.method.coarse.threshold.has_value());  // the table was replaced
  CHECK(c.data.validation.files == std::vector<std::string>{"a.h5", "b.h5"});

  const Config layers = parse_config(kLayers, "config.toml", {"model.layers[0].filters=24", "data.files=x.h5"});
  CHECK(layers.model.layers[0].units == 24);
  CHECK(layers.data.train.files == std::vector<std::string>{"x.h5"});
}

TEST_CASE("mrt means a fresh top") {
  const Config c = parse_config(kSmallest, "c.toml", {"method.name=mrt", "method.resolutions=[[2],[1]]"});
  CHECK(c.method.top == TopRule::fresh);
}

TEST_CASE("a file is read, and one that cannot be is an error") {
  const auto path = std::filesystem::temp_directory_path() / "mrmf_test_config.toml";
  std::ofstream(path) << kSmallest;
  CHECK(read_config(path, {"training.seed=3"}).training.seed == 3);
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(read_config("no/such.toml", {}), "no/such.toml: there is no such file");
  CHECK_THROWS_WITH(read_config("/", {}), "/: is a folder; name the configuration file in it");
  // A parent that cannot be looked into, here a file: a message, not std::filesystem's own exception.
  CHECK_THROWS_AS(read_config("/proc/version/run.toml", {}), ConfigError);
  const std::string too_long(5000, 'x');
  CHECK_THROWS_WITH(read_config(too_long, {}), doctest::Contains("cannot be read (File name too long)"));
}

TEST_CASE("every key is described once, with type, default and meaning") {
  const std::string text = describe_keys();
  CHECK(text.find("  training.batch\n      an integer of at least 1 and at most 4194304; 512 unless set\n      samples "
                  "per rank and step\n") != std::string::npos);
  CHECK(text.find("  method.name\n      one of baseline, mrt, mrmf, progressive, auto; \"baseline\" unless set\n") !=
        std::string::npos);
  CHECK(text.find("  filters  (conv, conv_transpose, locally_connected, rica)\n      an integer of at least 1\n      "
                  "output channels\n") != std::string::npos);
  CHECK(text.find("method.stop.dense.patience") == text.rfind("method.stop.dense.patience"));
}
