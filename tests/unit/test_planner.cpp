// The planner with made-up costs, worked out by hand: fits, tables, an epoch on a grid, and the choice of a grid.
#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "layers/halo_exchange.hpp"
#include "mpi/reduce_scatter.hpp"
#include "src/bench/bench.hpp"
#include "src/config/model_config.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/training/data_and_spatial_parallel.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/config_text.hpp"
#include "tests/unit/support/round_costs.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

Workload on_two_ranks() {
  Workload work{
      .network = small_network(), .grid = {{1, 1, 2}}, .ranks = {2, 2}, .batch = 6, .samples = 24, .validated = 8};
  work.training.accumulate = 1;
  return work;
}

OperationTime point(const std::string& key, const std::string& shape, double rows, double work, double forward) {
  OperationTime time{key, shape, rows, work, work, work, forward};
  time.data = 2 * forward;
  time.weights = 3 * forward;
  return time;
}

CostTables made_up_tables() {
  CostTables tables{{"host", "processor", 4, 8}, "library", "1", 1e6, {}};
  TeamTables team;
  team.ranks = 2;
  team.updates = {{"adam", 100, 1}, {"adam", 200, 2}};
  team.operations = {point("conv 4->8 3", "10x4", 1, 100, 1), point("conv 4->8 3", "20x4", 1, 200, 3)};
  team.loss = {0, 1e-3};
  team.load = {0.5, 1e-3};
  team.message = Line{0.1, 1e-3};
  team.sum = Line{0.2, 1e-3};
  team.update_sum = Line{0.1, 5e-4};
  team.small_sum = 0.05;
  team.codings = {{"vote", 1e-6}};
  team.waiting = {0.03, 0.04};
  tables.teams.push_back(team);
  return tables;
}

Operation operation_of(const std::string& key, double flop) {
  Operation operation;
  operation.key = key;
  operation.layer = "conv1";
  operation.flop = flop;
  operation.elements = flop;
  operation.parameters = 1;
  operation.in = {.n = 1, .spatial = {1, 1, 7}, .channels = 4, .axes = 1};
  return operation;
}

}  // namespace

TEST_CASE("planner: a fit finds the terms of exact times, and none below zero") {
  const auto seconds = [](double a, double b) { return 3 + 2 * a + 0.5 * b; };
  std::vector<TimedWork> measured;
  for (const auto& [a, b] : {std::pair{1.0, 4.0}, {2.0, 1.0}, {5.0, 7.0}, {8.0, 2.0}})
    measured.push_back({{1, a, b}, seconds(a, b)});
  const std::vector<double> found = fit_terms(measured);
  CHECK(found[0] == doctest::Approx(3));
  CHECK(found[1] == doctest::Approx(2));
  CHECK(found[2] == doctest::Approx(0.5));

  const Line falling = fit_line({{1, 10}, {10, 9}, {20, 8}});  // the plain line falls
  CHECK(falling.per_unit == 0);
  CHECK(falling.latency > 8);
  CHECK(fit_line({}) == Line{});
}

TEST_CASE("planner: an epoch on two blocks, by hand") {
  const auto backend = make_reference_backend();
  const RoundCosts costs;
  const Prediction p = predict(*backend, costs, on_two_ranks());
  CHECK(p.steps == 4);
  // A row: convolution 9x2 + 8x4 elements, forward and weights; ReLU 32 + 32, forward and data; the dense layer's own
  // columns 32 + 2, all passes. And a loss of two outputs.
  CHECK(p.epoch.compute == near(4 * (6 * (0.2 + 0.192 + 0.204) + 0.12)));
  CHECK(p.epoch.messages == 0);                    // the convolution's halo comes from the files
  CHECK(p.epoch.sums == near(4 * (5 + 3 * 0.5)));  // gradients; signals, products and their gradients
  CHECK(p.epoch.update == near(4 * 0.25));
  CHECK(p.epoch.load == near(4 * 6 * 4 * 18 * 1e-3));
  // Two steps of four: forward, half of a loss, batches, one sum.
  CHECK(p.epoch.validation == near(2 * (4 * 0.148 + 0.04) + 2 * 4 * 4 * 18 * 1e-3 + 0.5));
  CHECK(p.sent == 0);
  CHECK(p.layers.cut == std::vector<std::string>{"conv1", "relu1", "flatten", "dense1"});
  CHECK(p.layers.gathered.empty());
  CHECK(p.layers.whole.empty());
}

TEST_CASE("planner: ranks wait for the slowest of them, within a step where they share samples") {
  struct Uneven : RoundCosts {
    double waiting(bool within_step, const RankLayout& ranks) const override {
      return ranks.ranks == 1 ? 9 : within_step ? 0.5 : 0.25;
    }
  };
  const auto of = [](const EpochSeconds& e) { return e.compute + e.validation; };
  const auto backend = make_reference_backend();
  Workload work = on_two_ranks();
  for (const auto& [blocks, part] : {std::pair{2, 0.5}, {1, 0.25}}) {
    work.grid.blocks[2] = blocks;
    const Prediction even = predict(*backend, RoundCosts(), work), uneven = predict(*backend, Uneven(), work);
    CHECK(even.epoch.waiting == 0);
    CHECK(uneven.epoch.waiting == near(part * of(uneven.epoch)));
    CHECK(uneven.epoch.all() == near(even.epoch.all() + uneven.epoch.waiting));
  }
  work.network.layers.insert(work.network.layers.begin(), layer(LayerKind::batch_norm));
  name_layers(work.network.layers);
  for (const bool global : {false, true}) {  // statistics of all ranks' samples
    work.training.global_batch_norm = global;
    const EpochSeconds epoch = predict(*backend, Uneven(), work).epoch;
    CHECK(epoch.waiting == near((global ? 0.5 : 0.25) * of(epoch)));
  }
}

TEST_CASE("planner: a flatten that is gathered on two blocks, by hand") {
  const auto backend = make_reference_backend();
  const RoundCosts costs;
  Workload work = on_two_ranks();
  work.network.layers.insert(work.network.layers.begin() + 3, layer(LayerKind::batch_norm));
  name_layers(work.network.layers);
  work.training.global_batch_norm = false;
  const Prediction p = predict(*backend, costs, work);
  CHECK(p.epoch.messages == near(4 * 2 * (1 + 6 * 4 * 32 * 1e-3)));
  CHECK(p.epoch.sums == near(4 * (5 + 0.5)));
  CHECK(p.sent == near(2 * 6 * 4 * 32));
  // The exchange 32 + 64 elements forward and back, of convolution 0.2, ReLU 0.192, norm 128, and 32 columns of 64 + 2.
  CHECK(p.between > 0);
  CHECK(p.layers.cut == std::vector<std::string>{"conv1", "relu1", "dense1"});
  CHECK(p.layers.gathered == std::vector<std::string>{"flatten"});
  CHECK(p.layers.whole == std::vector<std::string>{"batch_norm1"});
}

TEST_CASE("planner: few ranks update in pieces beside the sums, unless something forbids it") {
  class OfPieces final : public RoundCosts {
   public:
    double update_sum(double, double, const RankLayout& ranks) const override { return ranks.ranks > 1 ? 3 : 0; }
    double update(OptimizerKind, Index parameters) const override { return 1e-3 * static_cast<double>(parameters); }
  };
  const auto backend = make_reference_backend();
  Workload work = on_two_ranks();
  work.grid = {};
  work.network.layers.back().units = 4096;  // a dense layer long enough for pieces
  work.training.global_batch_norm = false;
  const auto epoch = [&] { return predict(*backend, OfPieces(), work).epoch; };
  const Network network(*backend, work.network);
  const double all = 2 * 1e-3 * static_cast<double>(network.params_size());  // two steps
  CHECK(epoch().sums == near(2 * (3 + 0.5)));
  CHECK(epoch().update == near(all / 2));
  work.reproducible_sums = true;
  CHECK(epoch().sums == near(2 * (5 + 0.5)));
  CHECK(epoch().update == near(all));
  work.reproducible_sums = false;
  work.training.clip_norm = 1;
  CHECK(epoch().sums == near(2 * (5 + 0.5)));
  work.training.clip_norm = 0;
  work.ranks = {9, 9};
  CHECK(epoch().sums == near(1 * (5 + 0.5)));
  CHECK(epoch().update == near(all / 2));  // one step of it
  work.ranks = {2, 2};
  work.network.layers.back().units = 2;  // every rank updates all of it
  const Network small(*backend, work.network);
  CHECK(epoch().update == near(2 * 1e-3 * static_cast<double>(small.params_size())));
}

TEST_CASE("planner: sums that travel as codes take their bytes, their codes and now and then momenta") {
  class ByBytes final : public RoundCosts {
   public:
    double gradient_sum(double bytes, double, const RankLayout& ranks) const override {
      return ranks.ranks > 1 ? 1e-3 * bytes : 0;
    }
    double coding(Communication scheme, double values) const override {
      return (scheme == Communication::fp32 ? 0 : 1e-4) * values;
    }
  };
  const auto backend = make_reference_backend();
  Workload work = on_two_ranks();
  work.grid = {};
  work.training.global_batch_norm = false;
  const auto sums = [&] { return predict(*backend, ByBytes(), work).epoch.sums / 2 - 0.5; };  // two steps, a signal
  const Execution execution = build_execution(*backend, Network(*backend, work.network), {.network = work.network});
  const auto values = static_cast<double>(execution.params.size());
  const double plain = 4e-3 * values;
  CHECK(sums() == near(plain + 4e-3 * kReducedScalars));
  using enum Communication;
  for (const auto& [scheme, bits] : {std::pair{bf16, 32}, {levels8, 10}, {levels4, 6}, {vote, 2}}) {
    work.training.sums = in_another_way({}, scheme);
    CHECK(sums() == near(plain * bits / 64 + 1e-4 * values));
  }
  work.training.sums.momenta = {.rule = MomentaRule::every, .every = 10, .tensors = {}};
  const double votes = plain * 2 / 64 + 1e-4 * values;
  const double all = sums() - votes;
  CHECK(all > 0.05 * plain);  // the arena has room between tensors, which is not averaged
  CHECK(all <= 0.1 * plain);
  work.training.sums.momenta.tensors = {"conv*"};
  CHECK(sums() - votes < all);
  work.ranks = {1, 1};
  CHECK(predict(*backend, ByBytes(), work).epoch.sums == 0);
  const Config config = [] {
    Config lion;
    lion.training.sums = in_another_way({}, vote);
    return lion;
  }();
  CHECK(make_plan(config).last.sums == config.training.sums);
}

TEST_CASE("planner: alone, nothing is sent, and a streamed epoch lasts as long as its files") {
  const auto backend = make_reference_backend();
  const RoundCosts costs;
  Workload work = on_two_ranks();
  work.grid = {};
  work.ranks = {1, 1};
  const Prediction p = predict(*backend, costs, work);
  CHECK(p.epoch.messages == 0);
  CHECK(p.epoch.sums == 0);
  CHECK(p.sent == 0);
  work.streamed = true;
  work.sample_bytes = 1000;
  const Prediction streamed = predict(*backend, costs, work);
  CHECK(streamed.epoch.all() == near((24 + 8) * 1000));
  CHECK(streamed.memory.data == 0);
}

TEST_CASE("planner: what a block sends is what its exchanges send") {
  const auto backend = make_reference_backend();
  std::vector<LayerSpec> layers{conv3(),
                                layer(LayerKind::relu),
                                conv3(),
                                layer(LayerKind::flatten),
                                layer(LayerKind::batch_norm),
                                layer(LayerKind::dense, 2)};
  name_layers(layers);
  NetworkSettings settings = small_network();
  settings.layers = layers;
  const Network network(*backend, settings);
  const Grid grid{{1, 1, 4}};
  const Partition partition(network, grid);
  for (int block = 0; block < 4; ++block) {
    const ModelSettings model{.network = settings, .grid = grid, .block = block};
    const Execution execution = build_execution(*backend, network, model);
    std::vector<double> sent;
    for (const Operation& operation : block_work(network, execution, model).operations)
      if (operation.halo_exchange()) sent.push_back(std::accumulate(operation.sent.begin(), operation.sent.end(), 0.0));
    const auto expected = [&](std::size_t number, const BlockPositions& to) {
      return static_cast<double>(
          halo_exchange_floats({network.entry(number - 1).output(), grid, block, partition.tensor(number), to}));
    };
    CHECK(sent == std::vector{expected(2, partition.layer(2).needs[0]), expected(3, partition.layer(3).needs[0])});
  }
  CHECK(different_blocks(partition, network) == std::vector{0, 1});  // the ends, and those between
}

TEST_CASE("planner: tables give exact sizes, those between, and beyond") {
  const auto costs = table_costs(made_up_tables(), {2, 2});
  Operation o = operation_of("conv 4->8 3", 150);
  CHECK(costs->operation(o, 1).forward == near(2));
  CHECK(costs->operation(o, 1).data == near(4));
  CHECK(costs->operation(o, 1).weights == near(6));
  CHECK(costs->source(o, 1) == CostSource::between);
  CHECK(costs->operation(o, 2).forward == near(3.0 * 300 / 200));
  CHECK(costs->source(operation_of("conv 4->8 3", 100), 1) == CostSource::measured);
  o.flop = 75;
  CHECK(costs->operation(o, 1).forward == near(0.5));
  o.flop = 10;  // the line would be below nothing
  CHECK(costs->operation(o, 1).forward == near(0.5 * 10 / 100));
  o.data_gradient = false;
  CHECK(costs->operation(o, 1).data == 0);
  CHECK(costs->source(operation_of("conv 4->9 3", 100), 1) == CostSource::fitted);
  CHECK(costs->operation(operation_of("conv 4->9 3", 200), 1).forward > 1);

  CHECK(costs->update(OptimizerKind::adam, 150) == near(1.5));
  CHECK(costs->update(OptimizerKind::sgd, 150) == near(1.5));  // for want of its own
  CHECK(costs->messages({100, 300}, {2, 2}) == near(0.1 + 0.4));
  CHECK(costs->gradient_sum(1000, 9, {2, 2}) == near(0.2 + 1));
  CHECK(costs->gradient_sum(1000, 9, {4, 4}) == near(0.4 + 1.5));  // twice the rounds, 3/4 for 1/2 of the bytes
  CHECK(costs->gradient_sum(1000, 9, {1, 1}) == 0);
  CHECK(costs->update_sum(1000, 9, {2, 2}) == near(0.1 + 0.5));
  CHECK(costs->update_sum(1000, 9, {2, 1}) == near(0.2 + 1));  // no memory to share
  CHECK(costs->update_sum(1000, 9, {1, 1}) == 0);
  CHECK(costs->small_sum({4, 4}) == near(0.1));
  CHECK(costs->coding(Communication::vote, 1000) == near(0.001));
  CHECK(costs->coding(Communication::bf16, 1000) == 0);  // not measured
  CHECK(costs->waiting(false, {2, 2}) == 0.03);
  CHECK(costs->waiting(true, {2, 2}) == 0.04);
  CHECK(costs->waiting(true, {1, 1}) == 0);
  CHECK(costs->load(500) == near(1));
  CHECK(costs->read(2e6) == near(2));
  CHECK(costs->crowding({4, 4}) == 1);
  CHECK(costs->crowding({8, 8}) == 2);
  CHECK(table_costs(made_up_tables(), {8, 8})->assumptions().size() == 2);
  CHECK_THROWS_AS(table_costs({}, {1, 1}), ConfigError);
}

TEST_CASE("planner: tables in a file, and newer ones in their place") {
  CostTables tables = made_up_tables();
  CostTables newer = made_up_tables();
  newer.teams[0].operations = {point("conv 4->8 3", "10x4", 1, 100, 7), point("relu", "10x4", 1, 40, 1)};
  newer.read = 0;
  tables.teams[0].spread = 0.2;
  newer.teams[0].spread = 0.1;
  tables.teams[0].waiting = {0.5, 0.2};
  newer.teams[0].waiting = {0.1, 0.6};
  newer.machine.cores = 2;
  tables.merge(newer);
  CHECK(tables.teams[0].spread == 0.2);  // an old operation is left
  CHECK(tables.teams[0].waiting.step == 0.5);
  CHECK(tables.teams[0].waiting.unit == 0.6);
  CHECK(tables.machine.cores == 4);  // the ranks of the newer ones were bound to some
  CostTables again = tables;
  again.teams[0].spread = 0.05;
  again.teams[0].waiting = {};
  tables.merge(again);
  CHECK(tables.teams[0].spread == 0.05);  // measured anew, all of them
  CHECK(tables.teams[0].waiting.step == 0);
  newer.teams[0].ranks = 1;
  newer.teams[0].message = newer.teams[0].sum = std::nullopt;
  tables.merge(newer);
  REQUIRE(tables.teams.size() == 2);
  CHECK(tables.teams[0].operations.size() == 3);
  CHECK(tables.teams[0].operations[0].forward == 7);
  CHECK(tables.read == 1e6);

  const std::string file = (std::filesystem::temp_directory_path() / "mrmf-test-tables.json").string();
  write_file(file, to_json(tables), Replace::file);
  CHECK(to_json(read_tables(file)) == to_json(tables));
  std::string earlier = to_json(tables);
  for (const std::string key : {"\"update_sum_by_byte\"", "\"spread\"", "\"waiting\""})
    for (std::size_t at = 0; (at = earlier.find(key, at)) != std::string::npos;)
      earlier.replace(at, key.size(), "\"-\"");
  write_file(file, earlier, Replace::file);
  CHECK(table_costs(read_tables(file), {2, 2})->update_sum(1000, 9, {2, 2}) == near(0.2 + 1));  // as the others
  CHECK(read_tables(file).teams[0].spread == 0);
  CHECK(read_tables(file).teams[0].waiting.step == 0);
  tables.teams[0].waiting.unit = -5;
  write_file(file, to_json(tables), Replace::file);
  CHECK_THROWS_WITH_AS(read_tables(file), doctest::Contains("-5 is below zero"), DataError);
  write_file(file, "{\"kind\": \"mrmf cost tables\"}", Replace::file);
  CHECK_THROWS_AS(read_tables(file), DataError);
  std::filesystem::remove(file);
}

TEST_CASE("planner: one slow round of measurement changes no time of the tables") {
  const auto round = [](double slower) {
    TeamTables team = made_up_tables().teams[0];
    for (OperationTime& one : team.operations)
      one.forward *= slower, one.data = *one.data * slower, one.weights = *one.weights * slower;
    for (UpdateTime& one : team.updates) one.seconds *= slower;
    for (Line* line : {&team.loss, &team.load, &*team.message, &*team.sum, &*team.update_sum})
      line->latency *= slower, line->per_unit *= slower;
    team.small_sum *= slower;
    // The mean of the waiting over networks and rounds is (0 + 0.02 + 0.01) / 3 * (9 + 1 + 1.5 + 1 + 0.5) / 5, and
    // twice that.
    const auto step = [&](const char* name, double seconds, double waiting) {
      return MeasuredStep{name, seconds, {waiting, 2 * waiting}};
    };
    return TableRound{
        team,
        {step("steady", 2, 0), step("slow", 4 * slower, 0.02 * slower), step("half", 4 + 4 * slower, 0.01 * slower)}};
  };
  const std::vector<TableRound> rounds{round(9), round(1), round(1.5), round(1), round(0.5)};
  CostTables found = made_up_tables(), expected = made_up_tables();
  found.teams = {median_of(rounds)};
  expected.teams[0].spread = 4.25;  // of 0, 4.25 and 8.5
  CHECK(found.teams[0].waiting.step == near(0.026));
  CHECK(found.teams[0].waiting.unit == near(0.052));
  found.teams[0].waiting = expected.teams[0].waiting;
  CHECK(to_json(found) == to_json(expected));
  CHECK(spread_of(rounds).most == near(8.5));
  CHECK(spread_of(rounds).worst == "slow");
  CHECK(spread_of({round(3)}).most == 0);
  CHECK(median_of({round(3), round(1)}).small_sum == near(0.05));  // of two the lower one
  const auto loss = [](double latency, double per_unit) {
    TableRound one{made_up_tables().teams[0], {}};
    one.times.loss = {latency, per_unit};
    return one;
  };
  // 1, 1.4 and 0.96 at 10000 outputs: a line that was measured, not latency and slope of two.
  CHECK(median_of({loss(0, 1e-4), loss(0.5, 9e-5), loss(0.9, 6e-6)}).loss == Line{0, 1e-4});
  CHECK(median_of({round(3)}).operations[0].weights == near(9));

  const auto says = [&](double spread) {
    found.teams[0].spread = spread;
    const std::vector<std::string> lines = table_costs(found, {2, 2})->assumptions();
    return !lines.empty() && lines[0].find("rounds differed by 23 %") != std::string::npos;
  };
  CHECK(says(0.23));
  CHECK_FALSE(says(0.09));
}

TEST_CASE("planner: a GPU's roofline, by hand") {
  const auto costs = roofline_costs("h100", Precision::bf16, {.memory = 1, .tensor = 1, .launch = 1e-6});
  Operation o = operation_of("relu", 0);
  o.parameters = 0;
  o.elements = 3.35e6;
  CHECK(costs->operation(o, 1).forward == near(1e-6 + 2e-6));  // two bytes each
  o = operation_of("conv 64->64 3x3x3", 989e6);
  o.elements = 1;
  o.weighted = true;
  o.out.channels = 32;  // half of the tensor cores' tile
  CHECK(costs->operation(o, 1).weights == near(1e-6 + 2e-6));
  CHECK(costs->memory() == 80e9);
  CHECK(costs->gradient_sum(1e6, 1, {1, 1}) == 0);
  // A ring leaves a node once, by all of its links; a message by its GPU's own.
  CHECK(costs->gradient_sum(8e9, 0, {16, 8}) == near(2 * 20e-6 * 4 + 2 * 15.0 / 16 * 8e9 / (0.75 * 400e9)));
  CHECK(costs->gradient_sum(8e9, 0, {8, 8}) == near(2 * 10e-6 * 3 + 2 * 7.0 / 8 * 8e9 / (0.75 * 450e9)));
  CHECK(costs->messages({3e9, 3e9}, {16, 8}) == near(20e-6 + 6e9 / (0.75 * 50e9)));
  CHECK(costs->feed(4.8e9) == near(0.1));
  CHECK_FALSE(costs->assumptions().empty());
  const auto cores = roofline_costs("v100", Precision::fp32, {.cores = 1, .launch = 1e-6});
  o.flop = 15.7e6;
  CHECK(cores->operation(o, 1).weights == near(1e-6 + 1e-6));  // 32 channels fill these
  CHECK_THROWS_WITH_AS(roofline_costs("h900", Precision::bf16), doctest::Contains("v100, a100, h100, h200"),
                       ConfigError);
}

TEST_CASE("planner: a GPU has neither the samples nor the CPU's sums in its memory") {
  const auto backend = make_reference_backend();
  Workload work = on_two_ranks();
  const Prediction cpu = predict(*backend, RoundCosts(), work);
  const Prediction gpu = predict(*backend, *roofline_costs("v100", Precision::fp32), work);
  CHECK(cpu.memory.data == 4 * (24 + 8) * 18);
  CHECK(gpu.memory.data == 0);
  work.samples = 2.4e9;  // of which the link brings fewer than a GPU could train
  const auto v100 = roofline_costs("v100", Precision::fp32);
  const Prediction many = predict(*backend, *v100, work);
  CHECK(many.epoch.all() >= v100->feed(4 * 2.4e9 * 18));
}

TEST_CASE("planner: ranks update pieces where few of them add in MPI's order, and no gradient is clipped") {
  for (const int ranks : {2, 8}) CHECK(mpi::adds_by_reduce_scatter(ranks));
  for (const int ranks : {1, 9}) CHECK_FALSE(mpi::adds_by_reduce_scatter(ranks));
  CHECK_FALSE(mpi::adds_by_reduce_scatter(4, true));
  TrainingConfig training;
  CHECK(updates_in_pieces(training, {}, true));
  CHECK_FALSE(updates_in_pieces(training, {}, false));
  CHECK_FALSE(updates_in_pieces(training, {.communication = Communication::bf16}, true));
  training.clip_norm = 1;
  CHECK_FALSE(updates_in_pieces(training, {}, true));
}

TEST_CASE("planner: what sums over few ranks keep is counted") {
  CHECK(mpi::floats_of_sums(1 << 16, 4) == 3 * (1 << 14));
  CHECK(mpi::floats_of_sums(1 << 16, 1) == 0);
  CHECK(mpi::floats_of_sums(1 << 16, 9) == 0);
  CHECK(mpi::floats_of_sums(1000, 4) == 0);
  const auto backend = make_reference_backend();
  NetworkSettings settings = small_network();
  settings.layers.back().units = 4096;
  const Network network(*backend, settings);
  const Execution execution = build_execution(*backend, network, {.network = settings});
  const auto models = [&](int ranks) { return memory_of(network, execution, {}, ranks).models; };
  const auto params = static_cast<std::size_t>(network.params_size());
  CHECK(models(4) - models(1) == 4 * static_cast<Index>(mpi::floats_of_sums(params, 4)));
  CHECK(models(4) > models(1));
  CHECK(models(9) == models(1));
}

TEST_CASE("planner: all grids whose groups fill the ranks") {
  CHECK(grids_of(1, 3).size() == 1);
  CHECK(grids_of(4, 1) == std::vector<Grid>{{{1, 1, 1}}, {{1, 1, 2}}, {{1, 1, 4}}});
  CHECK(grids_of(2, 2) == std::vector<Grid>{{{1, 1, 1}}, {{1, 2, 1}}, {{1, 1, 2}}});
  CHECK(grids_of(6, 2).size() == 9);  // 1; 2 and 3 either way; 6 in four ways
  CHECK(grids_of(8, 3).size() == 20);
  CHECK(grids_of(1024, 1, 4).size() == 3);
}

namespace {

struct Searched {
  Config config;
  std::vector<PhaseChoices> phases;
};

Searched searched(const RoundCosts& costs, const SearchSettings& settings) {
  const std::string text =
      std::string(kSmallest) + "[training]\nbatch = 6\n[method]\nname = \"mrmf\"\n" + "resolutions = [[2], [1]]\n";
  Searched result{parse_config(text, "text", {}), {}};
  result.config.model.layers = small_network().layers;
  result.config.model.preset.clear();
  const auto backend = make_reference_backend();
  result.phases = search_grids(*backend, costs, result.config, make_plan(result.config), settings);
  return result;
}

SearchSettings two_ranks() {
  return {.ranks = {2, 2}, .sample = small_network().sample, .samples = 24, .validated = 8};
}

}  // namespace

TEST_CASE("planner: the fastest grid of every phase keeps the mini-batch") {
  const RoundCosts costs;
  const Searched found = searched(costs, two_ranks());
  REQUIRE(found.phases.size() == make_plan(found.config).phases().size());
  for (const PhaseChoices& phase : found.phases) {
    CHECK(phase.mini_batch == 12);
    REQUIRE(phase.fitting.size() == 2);
    // Messages of a second each: samples of their own are faster.
    CHECK(phase.fitting[0].grid == Grid{});
    CHECK(phase.fitting[0].batch == 6);
    CHECK(phase.fitting[1].batch == 12);
    CHECK(phase.fitting[0].seconds() < phase.fitting[1].seconds());
  }
  const std::vector<OneGrid> one = one_grid(found.phases);
  REQUIRE(one.size() == 2);
  CHECK(one[0].grid == Grid{});
  double sum = 0;
  for (const PhaseChoices& phase : found.phases) sum += phase.phase.stop.epochs * phase.fitting[0].seconds();
  CHECK(one[0].seconds == near(sum));
}

TEST_CASE("planner: what does not fit is refused with its reason") {
  RoundCosts costs;
  SearchSettings settings = two_ranks();
  settings.mini_batch = 3;  // on two groups
  const Searched odd = searched(costs, settings);
  CHECK(odd.phases.back().fitting.size() == 1);
  REQUIRE(odd.phases.back().refused.size() == 1);
  CHECK(odd.phases.back().refused[0].find("2 groups of ranks cannot share a step's 3 samples") != std::string::npos);

  const double needed = static_cast<double>(odd.phases.back().fitting[0].prediction.memory.all());
  settings = two_ranks();
  settings.memory = needed / 100;
  CHECK_THROWS_WITH_AS(searched(costs, settings), doctest::Contains("a rank would need"), ConfigError);
  costs.limit = needed / 100;
  settings.memory = 0;
  CHECK_THROWS_AS(searched(costs, settings), ConfigError);
}

TEST_CASE("planner: what training would not accept is refused") {
  const RoundCosts costs;
  const auto backend = make_reference_backend();
  Config config = searched(costs, two_ranks()).config;
  const auto last = [&](const SearchSettings& settings) {
    return search_grids(*backend, costs, config, make_plan(config), settings).back();
  };
  const auto only = [](const PhaseChoices& phase, const Grid& grid, const char* reason) {
    REQUIRE(phase.fitting.size() == 1);
    CHECK(phase.fitting[0].grid == grid);
    REQUIRE(phase.refused.size() == 1);
    CHECK(phase.refused[0].find(reason) != std::string::npos);
  };
  const Grid two{{1, 1, 2}};
  config.data.shards = 1;
  only(last(two_ranks()), two, "data.shards = 1 is not a multiple of the 2 ranks");
  config.data.shards = 0;

  SearchSettings settings = two_ranks();
  settings.mini_batch = 8;
  config.training.accumulate = 5;  // a group alone would bring four samples
  only(last(settings), two, "training.accumulate = 5");
  config.training.accumulate = 1;

  settings = two_ranks();
  config.run.deterministic = true;
  config.data.shards = 2;
  only(last(settings), Grid{}, "run.deterministic and data.shards go without run.grid");
  config.training.accumulate = 2;
  CHECK_THROWS_WITH_AS(last(settings), doctest::Contains("training.accumulate does not go with"), ConfigError);
  settings.on_cpu = false;
  CHECK(last(settings).fitting.size() == 2);
}
