// Networks of several parts: whose turn it is, which units a turn computes, and configurations of them. What they
// compute is compared with PyTorch in tests/cli/test_parts.py.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/errors.hpp"
#include "layers/loss_terms_and_shared_weights.hpp"
#include "layers/model.hpp"
#include "layers/parts.hpp"
#include "src/config/config.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

PartSettings three_turns() {
  PartSettings settings;
  settings.terms = {{.name = "a", .output = "x"}};
  Turn first, second, late;
  first.steps = 3;
  second.steps = 2;
  second.until = 4;
  late.since = 2;
  settings.turns = {first, second, late};
  return settings;
}

LayerSpec named_layer(LayerKind kind, const std::string& name, std::vector<std::string> from = {}, Index units = 0) {
  LayerSpec spec;
  spec.kind = kind;
  spec.name = name;
  spec.from = std::move(from);
  spec.units = units;
  return spec;
}

// A generator and a discriminator that sees what it makes twice, once without a gradient.
NetworkSettings pair() {
  using enum LayerKind;
  NetworkSettings settings{{.n = 0, .channels = 3}, 4, {}, {}};
  settings.layers = {named_layer(labels, "truth", {}, 2),
                     named_layer(dense, "critic", {"truth"}, 1),
                     named_layer(dense, "generator1", {kInput}, 5),
                     named_layer(LayerKind::tanh, "bend"),
                     named_layer(dense, "generator", {}, 2),
                     named_layer(stop_gradient, "made"),
                     named_layer(dense, "judge", {}, 1),
                     named_layer(dense, "frozen", {"generator"}, 1),
                     named_layer(slice, "answer", {"generator"}, 2)};
  settings.layers[6].weights_of = settings.layers[7].weights_of = "critic";
  settings.layers[7].every = 2;
  LossTerm real{.name = "real", .output = "critic", .value = 1};
  LossTerm fake{.name = "fake", .output = "judge"};
  LossTerm fool{.name = "fool", .output = "frozen", .value = 1};
  for (LossTerm* term : {&real, &fake, &fool}) term->loss = LossSettings::single(LossKind::binary_cross_entropy);
  settings.parts.terms = {real, fake, fool};
  settings.parts.parts = {{"generator", {"generator*"}}, {"critic", {"critic"}}};
  settings.parts.turns = {{.parts = {"critic"}, .terms = {"real", "fake"}},
                          {.parts = {"generator"}, .terms = {"fool"}}};
  return settings;
}

std::vector<std::string> names_where(const Model& model, const std::vector<bool>& live) {
  std::vector<std::string> names;
  for (std::size_t u = 0; u + 1 < live.size(); ++u)
    if (live[u]) names.push_back(model.network().entry(model.units()[u].first).name);
  return names;
}

}  // namespace

TEST_CASE("parts: whose turn a step is, and how many steps turns have had, agree") {
  const PartSettings settings = three_turns();
  const TurnOrder order(settings);
  constexpr Index steps = 7;
  std::vector<Index> had(3);
  for (int epoch = 0; epoch < 9; ++epoch)
    for (Index step = 0; step < steps; ++step) {
      for (std::size_t turn = 0; turn < had.size(); ++turn)
        CHECK(order.before(epoch, step, steps, [&](std::size_t one) { return one == turn; }) == had[turn]);
      const std::size_t now = order.at(epoch, step, steps);
      CHECK(settings.turns[now].in(epoch));
      ++had[now];
    }
  // A circle goes on from epoch to epoch, and begins anew where other turns come or go.
  const auto turns_of = [&](int epoch) {
    std::vector<std::size_t> turns;
    for (Index step = 0; step < steps; ++step) turns.push_back(order.at(epoch, step, steps));
    return turns;
  };
  CHECK(turns_of(0) == std::vector<std::size_t>{0, 0, 0, 1, 1, 0, 0});
  CHECK(turns_of(1) == std::vector<std::size_t>{0, 1, 1, 0, 0, 0, 1});
  CHECK(turns_of(2) == std::vector<std::size_t>{0, 0, 0, 1, 1, 2, 0});
  CHECK(turns_of(4) == std::vector<std::size_t>{0, 0, 0, 2, 0, 0, 0});
}

TEST_CASE("parts: a turn computes what its terms need, and gradients between them and what it trains") {
  using Names = std::vector<std::string>;
  const auto backend = make_reference_backend();
  const Model model(*backend, {pair()});
  const std::vector<LiveUnits> live = live_units(model.execution(), model.network());
  REQUIRE(live.size() == 3);
  CHECK(names_where(model, live[0].forward) ==
        Names{"truth", "critic", "generator1", "bend", "generator", "made", "judge"});
  CHECK(names_where(model, live[0].backward) == Names{"critic", "made", "judge"});
  CHECK(names_where(model, live[1].forward) == Names{"generator1", "bend", "generator", "frozen"});
  CHECK(names_where(model, live[1].backward) == Names{"generator1", "bend", "generator", "frozen"});
  CHECK(names_where(model, live[2].forward) == Names{"generator1", "bend", "generator", "answer"});
}

TEST_CASE("parts: gradients are those of differences, and zero elsewhere") {
  std::vector<std::unique_ptr<Backend>> host;
  host.push_back(make_reference_backend());
  host.push_back(make_cpu_backend(1));
  for (const auto& backend : host) {
    Model model(*backend, {pair()});
    std::vector<float> x(12), labels(8);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.25F * static_cast<float>(i) - 1.5F;
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = 1 - 0.3F * static_cast<float>(i);
    const std::vector<std::int64_t> ids{0, 1, 2, 3};
    for (const std::size_t turn : {0U, 1U}) {
      StepContext step{.ids = ids, .loss_weight = 0.25F};
      step.turn = turn;
      step.labels = {{.n = 4, .channels = 2}, labels};
      const auto loss = [&] {
        model.forward(step, {{.n = 4, .channels = 3}, x});
        model.backward(step, {{.n = 4, .channels = 3}, x});
        return double{model.loss()[0]} / 4;
      };
      backend->fill(model.grads(), std::nanf(""));
      loss();
      const std::vector<float> slopes(model.grads().begin(), model.grads().end());
      for (const LayerEntry& entry : model.network().entries()) {
        const bool trains = entry.spec.weights_of.empty() && entry.name.starts_with(turn == 0 ? "critic" : "generator");
        for (Index i = entry.params.first; i < entry.params.end(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          INFO(entry.name << " " << i << " turn " << turn);
          if (!trains) {
            CHECK(slopes[at] == 0);
            continue;
          }
          constexpr float little = 1e-2F;
          const float was = model.params()[at];
          const auto there = [&](float value) {
            model.params()[at] = value;
            model.copy_weights(Copied::shared);
            return loss();
          };
          const double slope = (there(was + little) - there(was - little)) / (2 * little);
          there(was);
          CHECK(slopes[at] == doctest::Approx(slope).epsilon(2e-3).scale(0.05));
        }
      }
    }
  }
}

TEST_CASE("parts: a configuration of them is read as it is written") {
  const std::string text = R"(
[data]
files = ["a.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "vx", labels = "vy" }
[model]
preset = "jag"
[training]
epochs = 10
)";
  const Config config = parse_config(text, "text", {});
  REQUIRE(config.training.parts.turns.size() == 2);
  CHECK(config.training.parts.turns[0].until == 5);
  const Config again = parse_config(to_toml(config), "again", {}, Writer::run);
  CHECK(again == config);
  // Terms of a person's own leave nothing of the preset's, and a layer that none of them reads is a mistake.
  const std::string huber =
      "training.terms=[{ output = \"decoder\", target = \"answer\", loss = [{ kind = \"huber\", delta = 2 }], "
      "weight = 3 }";
  CHECK_THROWS_WITH_AS(parse_config(text, "text", {huber + "]"}), doctest::Contains("no later layer reads its output"),
                       ConfigError);
  std::string all = huber;
  for (const LossTerm& term : config.training.parts.terms)
    all += fmt::format(", {{ output = \"{}\", target = {}, loss = \"mse\" }}", term.output,
                       term.target.empty() ? "0" : fmt::format("\"{}\"", term.target));
  const Config own = parse_config(text, "text", {all + "]"});
  CHECK(own.training.parts.turns.empty());
  CHECK(own.training.parts.terms[0].weight == 3);
}

}  // namespace mrmf::test
