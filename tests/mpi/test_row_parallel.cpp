// Weights that the ranks of a grid cut among them: how much each has, training as on one rank, checkpoints and models
// for another grid, fusions, and the comparison of ranks.
#include <doctest/doctest.h>

#include "src/method/pipeline.hpp"
#include "src/run/model_file.hpp"
#include "src/training/training_loop.hpp"
#include "tests/mpi/differences.hpp"
#include "tests/mpi/shared_folder.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

/// conv 2->6 k3, ReLU, flatten, dropout, dense 10, tanh, dense 3: the first dense layer is cut by positions. With a
/// flat batch norm, evenly.
std::vector<LayerSpec> cut_layers(bool evenly) {
  LayerSpec conv = layer(LayerKind::conv, 6), drop = layer(LayerKind::dropout);
  conv.window = {1, 1, 3};
  drop.rate = 0.2F;
  std::vector<LayerSpec> layers{conv,
                                layer(LayerKind::relu),
                                layer(LayerKind::flatten),
                                drop,
                                layer(LayerKind::dense, 10),
                                layer(LayerKind::tanh),
                                layer(LayerKind::dense, 3)};
  if (evenly) layers.insert(layers.begin() + 3, layer(LayerKind::batch_norm));
  name_layers(layers);
  return layers;
}

ModelSettings settings_of(bool evenly, Index length, const Grid& grid, Comm& group, std::uint64_t seed) {
  ModelSettings settings = small_model(length, seed);
  settings.network.layers = cut_layers(evenly);
  settings.grid = grid;
  settings.block = grid.ranks() == 1 ? 0 : group.rank();
  return settings;
}

Grid along(int ranks) { return {{1, 1, ranks}}; }

WholeWeights whole(Backend& backend, ModelState& model_state) {
  return {backend, model_state.model.network(), model_state.model.layout(), model_state.sample_group};
}

/// Parameters and moments, whole.
std::vector<std::vector<float>> numbers(Backend& backend, ModelState& model_state) {
  const WholeWeights weights = whole(backend, model_state);
  std::vector<std::vector<float>> all{weights.read(model_state.model.params())};
  for (const Span moment : model_state.optimizer.moments()) all.push_back(weights.read(moment));
  return all;
}

/// Zeroes the gaps between layers, which files do not hold.
void set(Backend& backend, ModelState& model_state, std::uint64_t key) {
  const WholeWeights weights = whole(backend, model_state);
  const auto values = [&] {
    const std::vector<float> random = random_values(model_state.model.network().params_size(), key++);
    std::vector<float> all(random.size());
    for (const LayerEntry& entry : model_state.model.network().entries())
      std::copy_n(random.begin() + entry.params.first, entry.params.count, all.begin() + entry.params.first);
    return all;
  };
  weights.write(values(), model_state.model.params());
  for (const Span moment : model_state.optimizer.moments()) weights.write(values(), moment);
}

}  // namespace

TEST_CASE("row-parallel weights: a rank's arenas have its columns alone, and initial values are those without a grid") {
  Comm world = Comm::world();
  const auto backend = make_cpu_backend(1);
  for (const bool evenly : {false, true}) {
    CAPTURE(evenly);
    const Index length = 28, features = 6 * (length - 2), units = 10;
    const ModelState alone(*backend, settings_of(evenly, length, along(1), world, 1), {}, {1, 1, 1});
    ModelState cut(*backend, settings_of(evenly, length, along(world.size()), world, 1), {}, {1, 1, 1}, &world);
    CHECK(whole(*backend, cut).read(cut.model.params()) == copy(alone.model.params()));
    if (world.size() == 1) continue;
    const PartitionedWeights& weights = *cut.model.layout().partitioned(evenly ? 5 : 4);
    CHECK(world.sum(static_cast<double>(weights.columns(world.rank()))) == static_cast<double>(features));
    const Index left_out = units * (features - weights.columns(world.rank()));
    CHECK(left_out >= units * features / 2 - units * 12);
    const Index before = std::ssize(alone.model.params()), now = std::ssize(cut.model.params());
    CHECK(std::abs(before - left_out - now) < 16);  // but for the next 64-byte boundary
    for (const Span moment : cut.optimizer.moments()) CHECK(std::ssize(moment) == now);
    CHECK(std::ssize(cut.model.grads()) == now);
    const Execution &all = alone.model.execution(), &own = cut.model.execution();
    const Index activations = own.cache + own.activations - all.cache - all.activations;
    CHECK(own.floats(cut.model.network(), 2) - all.floats(alone.model.network(), 2) - activations ==
          4 * (now - before));
  }
}

TEST_CASE("row-parallel weights: a checkpoint and a model of one grid are those of any other, and of none") {
  Comm world = Comm::world();
  const auto backend = make_cpu_backend(1);
  const SharedFolder folder(world);
  for (const bool evenly : {false, true}) {
    CAPTURE(evenly);
    const auto state_of = [&](const Grid& grid, std::uint64_t seed) {
      return ModelState(*backend, settings_of(evenly, 28, grid, world, seed), {}, {1, 1, 1},
                        grid.ranks() > 1 ? &world : nullptr);
    };
    const Grid grids[] = {along(1), along(world.size())};
    for (const Grid& from : grids)
      for (const Grid& to : grids) {
        ModelState saved = state_of(from, 1), loaded = state_of(to, 2), model_only = state_of(to, 3);
        set(*backend, saved, 11);
        saved.keep_best(*backend);
        const auto before = numbers(*backend, saved);
        saved.model.params()[0] += 1;  // the best one is another
        const auto after = numbers(*backend, saved);
        save_checkpoint(*backend, folder.file("c.h5"), saved.arrays(), {"{}", "[run]\n"}, StateRows::one, world);
        loaded.keep_best(*backend);
        load_checkpoint(*backend, folder.file("c.h5"), loaded.arrays(), StateRows::one, world);
        CHECK(numbers(*backend, loaded) == after);
        loaded.swap_best(*backend);
        CHECK(numbers(*backend, loaded)[0] == before[0]);
        save_model(*backend, folder.file("m.h5"), saved.model, {"[run]\n"}, world, Replace::file, saved.sample_group);
        load_model(*backend, folder.file("m.h5"), model_only.model, world);
        CHECK(numbers(*backend, model_only)[0] == after[0]);
        world.barrier();
      }
  }
}

TEST_CASE(
    "row-parallel weights: a fusion moves parameters and moments as without a grid, whatever cuts the two models") {
  Comm world = Comm::world();
  const auto backend = make_cpu_backend(1);
  for (const bool evenly : {false, true})
    for (const bool dense_in_bottom : {false, true}) {
      CAPTURE(evenly);
      CAPTURE(dense_in_bottom);
      const Index coarse_length = dense_in_bottom ? 28 : 14;  // a bottom has the same shapes at both resolutions
      const auto fused = [&](const Grid& of_coarse, const Grid& of_dense) {
        const auto state_of = [&](const Grid& grid, Index length, std::uint64_t seed) {
          ModelSettings settings = settings_of(evenly, length, grid, world, seed);
          if (dense_in_bottom) settings.network.bottom.layers = {"conv1", "dense1"};
          return ModelState(*backend, settings, {}, {1, 1, 1}, grid.ranks() > 1 ? &world : nullptr);
        };
        ModelState coarse = state_of(of_coarse, coarse_length, 1), dense = state_of(of_dense, 28, 2);
        set(*backend, coarse, 31);
        set(*backend, dense, 41);
        Fusion fusion;
        fusion.top = dense_in_bottom ? TopRule::dense : TopRule::interpolated;
        fusion.moments = MomentTransfer::carry;
        fuse(*backend, coarse, dense, fusion);
        return numbers(*backend, dense);
      };
      const auto wanted = fused(along(1), along(1));
      const Grid cut = along(world.size());
      CHECK(fused(cut, cut) == wanted);
      CHECK(fused(along(1), cut) == wanted);
      CHECK(fused(cut, along(1)) == wanted);
    }
}

namespace {

/// A data set that all ranks see, and training on it.
struct CutTraining {
  Comm world = Comm::world();
  SharedFolder folder{world};
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  Config config;

  CutTraining(bool evenly, int groups) {
    const std::string file = folder.file("data.h5");
    if (world.root()) {
      write_floats(file, "x", {41, 28, 2}, random_values(41 * 28 * 2, 1));
      write_floats(file, "y", {41, 3}, random_values(41 * 3, 2));
    }
    world.barrier();
    config.data.train = config.data.validation = {{file}, "x", "y", SampleLayout::as_stored};
    config.data.shards = groups;
    config.model.layers = cut_layers(evenly);
    config.training.batch = 4;
    config.training.epochs = 10 / (41 / (4 * groups)) + 1;
  }

  /// What ten steps or more come to; the batch is that of a rank without a grid.
  std::vector<std::vector<float>> train(Comm& team, const Grid& grid, int batch) {
    Config own = config;
    own.training.batch = batch;
    own.run.grid = {grid.blocks};
    RunLog silent;
    const Plan plan = make_plan(own);
    StageGrids grids(*backend, own, plan, {.spatial = {1, 1, 28}, .channels = 2, .axes = 1}, team);
    Data data(own, team, Data::Reading::later);
    const RunContext ctx{*backend, team, data, silent, nullptr, false, &grids};
    data.load(grids.share({1, 1, 1}));
    ModelState model_state = make_model_state(plan, own, ctx, {1, 1, 1}, 1);
    TrainingLoop(ctx, own.training).train(model_state, plan.last);
    return numbers(*backend, model_state);
  }
};

}  // namespace

TEST_CASE(
    "row-parallel weights: ten steps as on one rank, for every optimizer, with limited norms and batches in parts") {
  Comm world = Comm::world();
  Comm self = Comm::self();
  for (int blocks = 2; blocks <= world.size(); ++blocks) {
    if (world.size() % blocks != 0) continue;
    const int groups = world.size() / blocks;
    CAPTURE(blocks);
    for (const bool evenly : {false, true})
      for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw})
        for (const int parts : {1, 2}) {
          if (evenly && parts > 1 && groups > 1) continue;  // batch norm is of the rows of a part, which are others
          CAPTURE(evenly);
          CAPTURE(to_string(kind));
          CAPTURE(parts);
          CutTraining training(evenly, groups);
          training.config.training.optimizer.name = kind;
          training.config.training.optimizer.learning_rate = kind == OptimizerKind::sgd ? 0.05 : 0.005;
          training.config.training.optimizer.epsilon = 1e-3;  // so that small gradients' errors are not made large
          training.config.training.optimizer.weight_decay = 0.01;
          training.config.training.accumulate = parts;
          training.config.training.clip_norm = 0.1;                    // below all norms here
          const double tolerance = evenly && parts > 1 ? 2e-3 : 3e-4;  // a norm of two rows makes much of rounding
          const auto split = training.train(world, along(blocks), 4),
                     wanted = training.train(self, along(1), 4 * groups);
          for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(relative_difference(split[i], wanted[i]) < tolerance);
        }
  }
}

TEST_CASE("row-parallel weights: ranks with the same block are compared, and what all have on all ranks") {
  Comm world = Comm::world();
  const int blocks = 2;
  if (world.size() != 4) return;
  const auto backend = make_cpu_backend(1);
  SampleGrid grid(*backend, along(blocks), world);
  ModelState model_state(*backend, settings_of(false, 28, along(blocks), grid.sample_group(), 1), {}, {1, 1, 1},
                         &grid.sample_group());
  const ArenaSpan weights = model_state.model.layout().partitioned().at(0);
  const auto compare = [&] {
    require_same_model(*backend, model_state.model, Compared::parameters_and_state, {world, grid.same_block()}, "here");
  };
  CHECK_NOTHROW(compare());
  for (const int altered : {1, 3}) {
    float& value = model_state.model.params()[static_cast<std::size_t>(weights.first)];
    const float before = value;
    if (world.rank() == altered) value += 1;
    CHECK_THROWS_WITH_AS(compare(), doctest::Contains("the ranks disagree on the parameters here: rank 1 ("),
                         FaultError);
    CHECK_THROWS_WITH_AS(compare(), doctest::Contains("), rank 3 ("), FaultError);
    value = before;
  }
  float& shared = model_state.model.params()[0];
  if (world.rank() == 2) shared += 1;
  CHECK_THROWS_WITH_AS(compare(), doctest::Contains(": rank 2 ("), FaultError);
}
