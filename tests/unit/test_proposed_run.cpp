// What follows from predicted grids: one for each resolution, the batches that go with them, the sizes of two teams,
// and what each layer takes.
#include <doctest/doctest.h>

#include "kernels/errors.hpp"
#include "src/config/model_config.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/config_text.hpp"
#include "tests/unit/support/round_costs.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

Config config_of(const std::string& training, const std::string& method) {
  Config config = parse_config(
      std::string(kSmallest) + "[training]\n" + training + "\n[method]\nname = \"mrmf\"\n" + method, "text", {});
  config.model.layers = small_network().layers;
  config.model.preset.clear();
  return config;
}

Grid line_grid(Index blocks) { return {{1, 1, blocks}}; }

/// A phase's grids with their seconds, for a mini-batch of 16 on four ranks.
PhaseChoices choices(const Phase& phase, const std::vector<std::pair<Index, double>>& grids) {
  PhaseChoices found{phase, 16, {}, {}};
  for (const auto& [blocks, seconds] : grids) {
    GridChoice choice{line_grid(blocks), 16 * blocks / 4, {}};
    choice.prediction.epoch.compute = seconds;
    found.fitting.push_back(choice);
  }
  return found;
}

const std::vector<std::pair<Index, double>> kCoarsestGrids{{1, 1}, {2, 2}, {4, 3}}, kHalfGrids{{1, 5}, {2, 3}, {4, 4}},
    kFullGrids{{2, 8}, {4, 5}};

struct ThreeResolutions {
  Config config = config_of("batch = 4\nepochs = 1", "resolutions = [[4], [2], [1]]\n");
  Plan plan = make_plan(config);
  std::vector<PhaseChoices> phases;
  ThreeResolutions() {
    for (const Phase& phase : plan.phases())
      phases.push_back(choices(phase, phase.resolution[2] == 4   ? kCoarsestGrids
                                      : phase.resolution[2] == 2 ? kHalfGrids
                                                                 : kFullGrids));
  }
};

/// Computation alone: an epoch's seconds are its samples' on the team.
class OnlyComputing final : public RoundCosts {
 public:
  double loss(double) const override { return 0; }
  double gradient_sum(double, double, const RankLayout&) const override { return 0; }
  double small_sum(const RankLayout&) const override { return 0; }
  double update(OptimizerKind, Index) const override { return 0; }
  double load(double) const override { return 0; }
};

std::vector<TeamChoice> splits_of(const Config& config, const CostModel& costs, const SearchSettings& settings) {
  const auto backend = make_reference_backend();
  const Plan plan = make_plan(config);
  const std::vector<PhaseChoices> phases = search_grids(*backend, costs, config, plan, settings);
  for (const PhaseChoices& phase : phases) CHECK(phase.fitting.size() == 1);  // teams go without grids
  return search_team_sizes(*backend, costs, config, plan, settings, phases);
}

SearchSettings six_ranks() { return {.ranks = {6, 6}, .sample = small_network().sample, .samples = 24}; }

}  // namespace

TEST_CASE("proposed run: a grid for each resolution is the shortest path") {
  const ThreeResolutions three;
  const auto free = grid_per_resolution(three.plan, three.phases, 0);
  REQUIRE(free);
  CHECK(free->grids == std::vector{line_grid(1), line_grid(2), line_grid(4)});
  CHECK(free->seconds == near(1 + 2 * 3 + 2 * 5));
  CHECK(free->reading == 0);
  const auto cheap = grid_per_resolution(three.plan, three.phases, 0.75);
  CHECK(cheap->grids == free->grids);
  CHECK(cheap->seconds == near(17 + 2 * 0.75));
  CHECK(cheap->reading == near(1.5));
  const auto dear = grid_per_resolution(three.plan, three.phases, 10);  // than any change is worth
  CHECK(dear->grids == std::vector{line_grid(4), line_grid(4), line_grid(4)});
  CHECK(dear->seconds == near(one_grid(three.phases).front().seconds));
  CHECK(dear->reading == 0);
}

TEST_CASE("proposed run: no grid for each resolution where one has none for all its phases") {
  ThreeResolutions three;
  three.phases.back().fitting.erase(three.phases.back().fitting.begin());  // the finetune on four alone,
  three.phases[three.phases.size() - 2].fitting.pop_back();                // and its dense model on two
  CHECK(three.phases.back().phase.resolution == three.phases[three.phases.size() - 2].phase.resolution);
  CHECK_FALSE(grid_per_resolution(three.plan, three.phases, 0));
  CHECK(one_grid(three.phases).empty());
}

TEST_CASE("proposed run: every phase keeps its mini-batch, whatever the grids") {
  ThreeResolutions three;
  three.config.method.coarse.batch = 3;  // what was configured for other grids goes
  const ProposedRun run = proposed_run(three.plan, three.phases, {line_grid(1), line_grid(2), line_grid(4)});
  CHECK(run.batches == std::vector<Index>{4, 8, 8, 16, 16});
  const Config planned = proposed_config(three.config, run);
  const std::vector<Phase> phases = make_plan(planned).phases();
  for (std::size_t i = 0; i < phases.size(); ++i) CHECK(phases[i].batch == run.batches[i]);
  CHECK(phases[0].grid == line_grid(1).blocks);
  CHECK(phases[1].grid == line_grid(2).blocks);
  CHECK(phases.back().grid == line_grid(4).blocks);
  CHECK(parse_config(to_toml(planned), "text", {}).run.grid == planned.run.grid);
  CHECK(proposed_keys(planned, run, 1) == std::vector<std::string>{"run.grid = [[1], [2], [4]]", "training.batch = 16",
                                                                   "method.stages: coarse.batch of stage 1 = 4",
                                                                   "method.stages: coarse.batch of stage 2 = 8",
                                                                   "method.stages: dense.batch of stage 1 = 8",
                                                                   "method.stages: dense.batch of stage 2 = 16"});

  const ProposedRun one = proposed_run(three.plan, three.phases, {line_grid(2)});
  const Config single = proposed_config(three.config, one);
  CHECK(single.method.stages.empty());
  CHECK_FALSE(single.method.coarse.batch.has_value());
  CHECK(proposed_keys(single, one, 1) == std::vector<std::string>{"run.grid = [2]", "training.batch = 8"});
}

TEST_CASE("proposed run: two teams share the ranks out by their models' seconds, by hand") {
  const OnlyComputing costs;
  Config config = config_of("batch = 2\nepochs = 2", "resolutions = [[2], [1]]\nteams = \"concurrent\"\n");
  const std::vector<TeamChoice> splits = splits_of(config, costs, six_ranks());
  REQUIRE(splits.size() == 5);
  // A row of 16 positions: convolution 32 + 64 elements in two passes, ReLU 128, the dense layer 64 + 2 in three
  // passes.
  const double dense = 1e-3 * (96 * 4 + 128 * 3 + 66 * 6), coarse = 1e-3 * (48 * 4 + 64 * 3 + 34 * 6);
  CHECK(splits[0].dense == 4);
  CHECK(splits[0].coarse == 2);
  REQUIRE(splits[0].stages.size() == 1);
  CHECK(splits[0].stages[0].dense == near(2 * 6 * dense));  // epochs, and 24 samples on four ranks
  CHECK(splits[0].stages[0].coarse == near(2 * 12 * coarse));
  CHECK(splits[0].seconds() == near(2 * 12 * coarse));
  CHECK(splits[1].seconds() > splits[0].seconds());

  config.method.coarse.epochs = 4;  // twice the work
  const std::vector<TeamChoice> longer = splits_of(config, costs, six_ranks());
  CHECK(longer[0].dense == 3);
  CHECK(longer[0].coarse == 3);

  const ProposedRun run{{Grid{}}, std::vector<Index>(3, 2), {4, 2}};
  CHECK(proposed_config(config, run).method.team_shares == std::vector{4, 2});
  CHECK(proposed_keys(proposed_config(config, run), run, 1)[1] == "method.team_shares = [4, 2]");
}

TEST_CASE("proposed run: teams can share the samples and shards, and have a rank each") {
  const OnlyComputing costs;
  Config config = config_of("batch = 12\nepochs = 2", "resolutions = [[2], [1]]\nteams = \"concurrent\"\n");
  config.data.shards = 12;
  SearchSettings settings = six_ranks();
  settings.samples = 288;
  const std::vector<TeamChoice> even = splits_of(config, costs, settings);
  REQUIRE(even.size() == 3);
  for (const TeamChoice& split : even) CHECK(split.dense != 5);
  config.data.shards = 3;
  settings.ranks = {3, 3};
  CHECK_THROWS_WITH_AS(splits_of(config, costs, settings), doctest::Contains("no split of 3 ranks"), ConfigError);
  config.data.shards = 0;
  CHECK(splits_of(config, costs, settings).size() == 2);
  settings = six_ranks();
  settings.ranks = {1, 1};
  CHECK_THROWS_WITH_AS(splits_of(config, costs, settings), doctest::Contains("a rank for each of two teams"),
                       ConfigError);
  const Config alone = config_of("batch = 1\nepochs = 2", "resolutions = [[2], [1]]\n");
  const auto backend = make_reference_backend();
  CHECK(search_team_sizes(*backend, costs, alone, make_plan(alone), six_ranks(), {}).empty());
}

TEST_CASE("proposed run: what each layer takes adds up to the step") {
  const auto backend = make_reference_backend();
  const RoundCosts costs;
  Workload work{.network = small_network(), .grid = line_grid(2), .ranks = {2, 2}, .batch = 6, .samples = 24};
  work.network.layers.insert(work.network.layers.begin() + 3, layer(LayerKind::batch_norm));
  name_layers(work.network.layers);
  work.training.accumulate = 1;
  const Prediction p = predict(*backend, costs, work);
  std::vector<std::string> names;
  double seconds = 0;
  for (const LayerCost& layer : p.costs) {
    names.push_back(layer.first);
    seconds += layer.seconds();
    CHECK((layer.messages > 0) == (layer.first == "flatten"));
  }
  CHECK(names == std::vector<std::string>{"conv1", "relu1", "flatten", "batch_norm1", "dense1"});
  CHECK(seconds == near(p.epoch.messages / 4 + p.epoch.compute / 4 - 0.01 * 6 * 2));  // less the loss
  const LayerCost& conv = p.costs[0];
  CHECK(conv.block.spatial[2] == 8);
  CHECK(conv.whole.spatial[2] == 16);
  CHECK(conv.compute == near(6 * 0.2));
  const LayerCost& gathered = p.costs[2];
  CHECK(gathered.messages == 2);  // forward, and back
  CHECK(gathered.sent == near(2 * 6 * 4 * 32));
  CHECK(gathered.message_seconds == near(2 * (1 + 6 * 4 * 32 * 1e-3)));
}
