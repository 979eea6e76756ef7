// A stem: a model that was trained on averages reads finer data, and computes at first what it did.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "layers/stem.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "src/method/pipeline.hpp"
#include "src/plan/plan.hpp"
#include "tests/unit/support/config_text.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

ModelSettings model_settings(const Shape& sample, std::vector<LayerSpec> layers, std::uint64_t seed) {
  ModelSettings settings;
  settings.network = {sample, 6, std::move(layers), {}};
  settings.seed = seed;
  return settings;
}

Shape averaged(Shape sample, const Extent& ratio) {
  for (std::size_t axis = 0; axis < 3; ++axis) sample.spatial[axis] /= ratio[axis];
  return sample;
}

// Means over the windows of channels-last samples.
std::vector<float> average(const std::vector<float>& x, const Shape& fine, const Extent& ratio) {
  const Shape coarse = averaged(fine, ratio);
  std::vector<double> sums(static_cast<std::size_t>(coarse.count()));
  for (Index i = 0; i < fine.count(); ++i) {
    const Index c = i % fine.channels;
    Index rest = i / fine.channels, to = 0, step = 1;
    for (std::size_t axis = 3; axis-- > 0;) {
      to += rest % fine.spatial[axis] / ratio[axis] * step;
      step *= coarse.spatial[axis];
      rest /= fine.spatial[axis];
    }
    sums[static_cast<std::size_t>((rest * step + to) * fine.channels + c)] += x[static_cast<std::size_t>(i)];
  }
  std::vector<float> means;
  for (const double sum : sums) means.push_back(static_cast<float>(sum / static_cast<double>(product(ratio))));
  return means;
}

std::vector<LayerSpec> with_names(std::vector<LayerSpec> layers) {
  name_layers(layers);
  return layers;
}

struct Handed {
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Shape sample;
  Extent ratio;
  ModelState coarse, finer;

  Handed(const Shape& full, const Extent& by, const std::vector<LayerSpec>& layers)
      : sample(full),
        ratio(by),
        coarse(*backend, model_settings(averaged(full, by), layers, 1), OptimizerSettings{}, by),
        finer(*backend, model_settings(full, behind_stem(layers, {by, full.channels}), 2), OptimizerSettings{},
              Extent{1, 1, 1}) {
    train_a_little(*backend, coarse.model, 50);
    update(finer.optimizer, 1e-3, finer.model);
    fuse(*backend, coarse, finer, Fusion{.top = TopRule::stem});
  }

  // The largest difference of the outputs, in the largest output of all.
  double difference(bool training) {
    const Shape fine = sample.with_rows(6);
    const std::vector<float> x = random_values(fine.count(), 7), means = average(x, fine, ratio);
    const Batch batch(finer.model, 6, 7);
    const auto output = [&](Model& model, const std::vector<float>& values) {
      const ConstTensor in{model.network().input().with_rows(6), values};
      return copy(model.forward(batch.step(training), in).data);
    };
    const std::vector<float> expected = output(coarse.model, means), is = output(finer.model, x);
    REQUIRE(is.size() == expected.size());
    double apart = 0, most = 0;
    for (std::size_t i = 0; i < is.size(); ++i) {
      apart = std::max(apart, std::abs(static_cast<double>(is[i]) - expected[i]));
      most = std::max(most, std::abs(static_cast<double>(expected[i])));
    }
    REQUIRE(most > 0.01);
    return apart / most;
  }
};

std::vector<float> values_at(const ArenaSpan& span, ConstSpan arena) {
  return copy(arena.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)));
}

}  // namespace

TEST_CASE("stem: after the transfer the model computes what the coarse one does on averages") {
  const Extent square{1, 3, 3}, cube{3, 3, 3};
  const std::vector<LayerSpec> norm_first =
      with_names({layer(LayerKind::batch_norm), layer(LayerKind::tanh), conv(4, cube), layer(LayerKind::relu),
                  layer(LayerKind::flatten), layer(LayerKind::dense, 3)});
  const std::vector<LayerSpec> plane =
      with_names({conv(5, square), layer(LayerKind::batch_norm), layer(LayerKind::relu), layer(LayerKind::flatten),
                  layer(LayerKind::dense, 3)});
  const Shape row{.n = 0, .spatial = {1, 1, 28}, .channels = 2, .axes = 1};
  const Shape image{.n = 0, .spatial = {1, 12, 16}, .channels = 3, .axes = 2};
  const Shape volume{.n = 0, .spatial = {8, 10, 12}, .channels = 2, .axes = 3};
  struct Case {
    const char* name;
    Shape sample;
    Extent ratio;
    std::vector<LayerSpec> layers;
  };
  Shape long_row = row;
  long_row.spatial = {1, 1, 56};
  for (const Case& c :
       {Case{"1-D", row, {1, 1, 2}, small_layers()}, Case{"1-D by 4", long_row, {1, 1, 4}, small_layers()},
        Case{"2-D, odd number of channels", image, {1, 2, 2}, plane}, Case{"2-D, by 3 and 4", image, {1, 3, 4}, plane},
        Case{"3-D, batch norm first", volume, {2, 2, 2}, norm_first}}) {
    CAPTURE(c.name);
    Handed handed(c.sample, c.ratio, c.layers);
    CHECK(handed.difference(false) < 1e-5);
    CHECK(handed.difference(true) < 1e-4);
    CHECK(handed.finer.optimizer.steps() == 0);
    const std::size_t first = convolution_behind_stem(c.layers);
    const auto difference_weights = [&] {
      const LayerEntry& entry = handed.finer.model.network().entry(first + 1);
      const auto in = static_cast<std::size_t>(entry.input.channels),
                 means = static_cast<std::size_t>(c.sample.channels);
      REQUIRE(entry.input.channels == c.sample.channels * product(c.ratio));
      double sum = 0;
      const std::vector<float> w = values_at(entry.params, handed.finer.model.params());
      const std::size_t bias = static_cast<std::size_t>(entry.output().channels);
      for (std::size_t i = 0; i < w.size() - bias; ++i)
        if (i % in >= means) sum += std::abs(w[i]);
      return sum;
    };
    const LayerEntry& stem = handed.finer.model.network().entry(0);
    const std::vector<float> basis = values_at(stem.params, handed.finer.model.params());
    CHECK(difference_weights() == 0);
    // What the averages lack is there to be learnt.
    train_a_little(*handed.backend, handed.finer.model, 60);
    CHECK(difference_weights() > 0);
    CHECK(values_at(stem.params, handed.finer.model.params()) != basis);
  }
}

TEST_CASE("stem: its weights are an orthogonal basis, the means first, and every channel has its own") {
  const std::vector<float> two = stem_weights({{1, 1, 2}, 1});
  CHECK(two[0] == 0.5F);
  CHECK(two[1] == 0.5F);
  CHECK(two[2] == doctest::Approx(0.5));
  CHECK(two[3] == doctest::Approx(-0.5));
  for (const StemWindow& window : {StemWindow{{1, 1, 4}, 3}, StemWindow{{1, 2, 2}, 3}, StemWindow{{2, 4, 3}, 2}}) {
    const std::vector<float> w = stem_weights(window);
    const auto filters = static_cast<std::size_t>(window.filters()),
               channels = static_cast<std::size_t>(window.channels);
    REQUIRE(w.size() == filters * filters);  // as many as the window has numbers
    for (std::size_t a = 0; a < filters; ++a) {
      for (std::size_t i = 0; i < filters; ++i) {
        if (i % channels != a % channels)
          CHECK(w[a * filters + i] == 0);
        else if (a < channels)
          CHECK(w[a * filters + i] == doctest::Approx(1.0 / static_cast<double>(product(window.ratio))));
      }
      for (std::size_t b = 0; b < filters; ++b) {
        double dot = 0;
        for (std::size_t i = 0; i < filters; ++i) dot += static_cast<double>(w[a * filters + i]) * w[b * filters + i];
        CHECK(dot == doctest::Approx(a == b ? 1.0 / static_cast<double>(product(window.ratio)) : 0).scale(1));
      }
    }
  }
}

TEST_CASE("stem: a batch norm before the first convolution keeps its numbers and takes differences as they are") {
  const std::vector<LayerSpec> layers = with_names(
      {layer(LayerKind::batch_norm), conv(4, {1, 1, 3}), layer(LayerKind::flatten), layer(LayerKind::dense, 3)});
  const Handed handed({.n = 0, .spatial = {1, 1, 24}, .channels = 2, .axes = 1}, {1, 1, 2}, layers);
  const Model &coarse = handed.coarse.model, &finer = handed.finer.model;
  const auto of = [](const Model& model, std::size_t i, bool state) {
    const LayerEntry& entry = model.network().entry(i);
    return values_at(state ? entry.state : entry.params, state ? model.state() : model.params());
  };
  const std::vector<float> was = of(coarse, 0, false), is = of(finer, 1, false);
  CHECK(is == std::vector<float>{was[0], was[1], 1, 1, was[2], was[3], 0, 0});
  const std::vector<float> then = of(coarse, 0, true), now = of(finer, 1, true);
  CHECK(now == std::vector<float>{then[0], then[1], 0, 0, then[2], then[3], 1, 1});
}

TEST_CASE("stem: carried moments are those of the same layers, and what is new or wider begins anew") {
  const std::vector<LayerSpec> layers =
      with_names({layer(LayerKind::batch_norm), conv(4, {1, 1, 3}), layer(LayerKind::relu), conv(4, {1, 1, 3}),
                  layer(LayerKind::flatten), layer(LayerKind::dense, 3)});
  const Shape sample{.n = 0, .spatial = {1, 1, 24}, .channels = 2, .axes = 1};
  const Extent by{1, 1, 2};
  const auto backend = make_cpu_backend(1);
  ModelState coarse(*backend, model_settings(averaged(sample, by), layers, 1), OptimizerSettings{}, by);
  ModelSettings behind = model_settings(sample, behind_stem(layers, {by, sample.channels}), 2);
  behind.network.bottom = new_layers(layers);
  CHECK(behind.network.bottom.layers == std::vector<std::string>{"front", "batch_norm1", "conv1"});
  ModelState finer(*backend, behind, OptimizerSettings{}, {1, 1, 1});
  const auto train = [&](ModelState& state, int steps) {
    for (int i = 0; i < steps; ++i)
      train_a_little(*backend, state.model, 50), update(state.optimizer, 1e-3, state.model);
  };
  train(coarse, 3), train(finer, 2);
  fuse(*backend, coarse, finer, Fusion{.top = TopRule::stem, .moments = MomentTransfer::carry});
  CHECK(finer.optimizer.ages() == MomentAges{0, 3});
  const std::vector<Span> was = coarse.optimizer.moments(), is = finer.optimizer.moments();
  REQUIRE(is.size() == 2);
  for (std::size_t m = 0; m < is.size(); ++m)
    for (std::size_t i = 0; i < finer.model.network().size(); ++i) {
      const LayerEntry& entry = finer.model.network().entry(i);
      CAPTURE(entry.name);
      const std::vector<float> now = values_at(entry.params, is[m]);
      if (i <= 2)
        CHECK(now == std::vector<float>(now.size()));
      else
        CHECK(now == values_at(coarse.model.network().entry(i - 1).params, was[m]));
    }
  CHECK(std::ranges::any_of(values_at(finer.model.network().entry(4).params, is[0]), [](float v) { return v != 0; }));
}

TEST_CASE("stem: what cannot stand behind one is refused by the layer's name") {
  const auto why = [](std::vector<LayerSpec> layers) -> std::string {
    try {
      connect(behind_stem(with_names(std::move(layers)), {{1, 1, 2}, 1}));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const Extent k{1, 1, 3};
  LayerSpec called = conv(2, k);
  called.name = "front";
  CHECK(why({called}).find("called \"front\"") != std::string::npos);
  CHECK(why({layer(LayerKind::max_pool), conv(2, k)}).find("pool1 (max_pool) comes before") != std::string::npos);
  CHECK(why({layer(LayerKind::dropout), conv(2, k)}).find("dropout1 (dropout)") != std::string::npos);
  CHECK(why({layer(LayerKind::flatten), layer(LayerKind::dense, 3)}).find("flatten (flatten)") != std::string::npos);
  CHECK(why({layer(LayerKind::batch_norm), layer(LayerKind::relu)}) == "the model has no convolution");
  LayerSpec norm = layer(LayerKind::batch_norm), join = layer(LayerKind::concat);
  norm.name = "norm", join.from = {"norm", "conv1"};
  LayerSpec same = conv(2, k);
  same.same_padding = true;
  const std::string two = why({norm, same, join});
  CHECK(two.find("conv1 reads what norm makes, and so does concat1") != std::string::npos);
  join.from = {"input", "conv1"};
  CHECK(why({same, join}).find("conv1 reads the network's input, and so does concat1") != std::string::npos);
  same.from = {"input"};  // as it may be written
  CHECK(why({same, layer(LayerKind::relu)}).empty());
}

TEST_CASE("stem: refusals of a configuration name the key, the reason and what to do") {
  const auto error = [](std::vector<std::string> set, const std::string& text = kSmallest) -> std::string {
    set.insert(set.begin(), {"method.name=mrmf", "method.top=stem"});
    try {
      make_plan(parse_config(text, "c.toml", set));
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "";
  };
  const std::string two = "method.resolutions=[[2],[1]]";
  CHECK(error({two}).empty());
  CHECK(error({two, "method.switch=slope"}).empty());
  CHECK(error({"method.resolutions=[[4],[2],[1]]"}).find("has 3; give two") != std::string::npos);
  CHECK(error({two, "method.moments=carry"}).empty());
  CHECK(error({two, "method.moments=carry", "model.bottom=[\"conv2\"]"}).empty());  // the bottom does not matter there
  CHECK(error({two, "method.teams=concurrent"}).find("method.teams") != std::string::npos);
  CHECK(error({two, "method.bottom=fresh"}).find("method.bottom") != std::string::npos);
  CHECK(error({two, "method.name=progressive"}).find("no choice of top layers") != std::string::npos);
  CHECK(error({two, "data.layout=reinterpret"}).find("are no neighbours") != std::string::npos);
  std::string pooled = kSmallest;
  pooled.replace(pooled.find("preset"), std::string::npos,
                 "layers = [{type=\"max_pool\", window=2}, {type=\"conv\", filters=2, kernel=3}]\n");
  CHECK(error({two}, pooled).find("pool1 (max_pool) comes before the first convolution") != std::string::npos);
}

TEST_CASE("stem: logarithms of the samples are a warning, because the loss jumps") {
  const auto warned = [](const std::string& units) {
    const std::vector<std::string> lines = config_warnings(parse_config(
        kSmallest, "c.toml",
        {"method.name=mrmf", "method.top=stem", "method.resolutions=[[2],[1]]", "data.normalise.samples=" + units}));
    return std::ranges::any_of(lines, [](const std::string& line) { return line.find("jump") != std::string::npos; });
  };
  CHECK(warned("log1p"));
  CHECK(warned("log1p_mean_std"));
  CHECK_FALSE(warned("mean_std"));
}

TEST_CASE("stem: outputs with positions are refused with the shape") {
  const auto backend = make_reference_backend();
  const Shape fine{.n = 0, .spatial = {1, 1, 16}, .channels = 1, .axes = 1};
  const std::vector<LayerSpec> layers = with_names({conv(2, {1, 1, 3})});
  const Network coarse(*backend, {averaged(fine, {1, 1, 2}), 1, layers, {}});
  const Network finer(*backend, {fine, 1, behind_stem(layers, {{1, 1, 2}, 1}), {}});
  CHECK_THROWS_WITH_AS(require_fusible(coarse, finer, Fusion{.top = TopRule::stem}), doctest::Contains("6x2"),
                       ConfigError);
}

TEST_CASE("stem: the plan's last network has it, what is new is its bottom, and costs are of the configured network") {
  const Config config =
      parse_config(kSmallest, "c.toml",
                   {"method.name=mrmf", "method.top=stem", "method.resolutions=[[4],[2]]", "model.bottom=[\"conv*\"]"});
  const Plan plan = make_plan(config);
  const Shape sample{.n = 0, .spatial = {1, 1, 1600}, .channels = 3, .axes = 1};
  const auto backend = make_reference_backend();
  const Network coarse(*backend, network_settings(config, plan, sample, {1, 1, 4}));
  const Network last(*backend, network_settings(config, plan, sample, {1, 1, 2}));
  REQUIRE(last.size() == coarse.size() + 1);
  CHECK(last.entry(0).name == "front");
  CHECK(last.entry(0).layer->signature() == "conv 3->6 k2 s2");
  CHECK_FALSE(last.entry(0).top);
  CHECK(last.input().spatial[2] == 800);
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    CHECK(last.entry(i + 1).output() == coarse.entry(i).output());
    CHECK(last.entry(i + 1).top == (i > 0));
  }
  CHECK_NOTHROW(require_fusible(coarse, last, plan.stages[0].fuse));
  const double full = Network(*backend, {last.input(), 1, config.model.layers, {}}).flop();
  CHECK(full_flop(config, plan, sample) == full);
  CHECK(training_cost(config, plan, sample) ==
        doctest::Approx((plan.stages[0].coarse.stop.epochs * coarse.flop() + plan.last.stop.epochs * last.flop()) /
                        full));
  CHECK(to_text(plan).find("all behind a new first layer, front") != std::string::npos);
  CHECK(to_json(plan).find("\"top\": \"stem\"") != std::string::npos);
  CHECK(parse_config(to_toml(config), "c.toml", {}) == config);
}

TEST_CASE("stem: auto takes it for series and planes, not for cubes, nor where it is no exact transfer") {
  const auto choose = [](const std::string& layers, int axes, const Shape& sample,
                         const std::vector<std::string>& more = {}) {
    const std::string text =
        "[data]\nfiles = [\"a.h5\"]\ntrain = { samples = \"x\", labels = \"y\" }\n"
        "validation = { samples = \"x\", labels = \"y\" }\n[model]\n" +
        layers + "\n[training]\nepochs = 12\n[method]\nname = \"auto\"\n";
    Config config = parse_config(text, "c.toml", more);
    resolve_axes(config.model.layers, axes);
    const AutoSchedule chosen = choose_schedule(config, sample);
    CHECK(chosen.training_cost == doctest::Approx(training_cost(chosen.config, make_plan(chosen.config), sample)));
    return chosen;
  };
  const std::string convolutions =
      "layers = [{ type = \"conv\", filters = 8, kernel = 3, padding = \"same\" }, { type = \"relu\" },\n"
      "  { type = \"average_pool\", window = 2 }, { type = \"flatten\" }, { type = \"dense\", units = 4 }]";
  const Shape series{.n = 0, .spatial = {1, 1, 1600}, .channels = 3, .axes = 1};
  const AutoSchedule neurons = choose("preset = \"neuron_inverter\"", 1, series);
  CHECK(neurons.config.method.top == TopRule::stem);
  CHECK(neurons.config.method.coarse.epochs == 12);  // a coarse epoch costs about a half
  CHECK(neurons.config.method.finetune.epochs == 4);
  CHECK(neurons.training_cost < 12 * 0.51 + 4 * 0.56);
  CHECK(neurons.training_cost > 12 * 0.45 + 4 * 0.5);
  REQUIRE(neurons.reasons.size() >= 2);
  CHECK(neurons.reasons[1].find("another network than the baseline's") != std::string::npos);

  const Shape plane{.n = 0, .spatial = {1, 32, 32}, .channels = 1, .axes = 2};
  const AutoSchedule planes = choose(convolutions, 2, plane);
  CHECK(planes.config.method.top == TopRule::stem);
  CHECK(planes.config.method.coarse.epochs == 14);
  CHECK(planes.config.method.finetune.epochs == 2);

  const Shape cube{.n = 0, .spatial = {16, 16, 16}, .channels = 2, .axes = 3};
  const AutoSchedule cubes = choose(convolutions, 3, cube);
  CHECK(cubes.config.method.top == TopRule::interpolated);
  CHECK(cubes.config.method.coarse.epochs == 14);
  CHECK(cubes.config.method.finetune.epochs == 2);

  // Averages of logarithms are not logarithms of averages; a dropout's masks differ.
  CHECK(choose("preset = \"neuron_inverter\"", 1, series, {"data.normalise.samples=log1p"}).config.method.top ==
        TopRule::interpolated);
  CHECK(choose("preset = \"neuron_inverter\"", 1, series, {"data.layout=reinterpret"}).config.method.top ==
        TopRule::interpolated);
  const std::string dropout = "layers = [{ type = \"dropout\", rate = 0.1 }, " + convolutions.substr(10);
  CHECK(choose(dropout, 2, plane).config.method.top == TopRule::interpolated);
}
