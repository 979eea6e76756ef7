// Parameters that each rank updates in pieces: the same numbers as where every rank updates all of them, and moments
// that are whole wherever somebody sees them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>

#include "src/training/training_loop.hpp"
#include "tests/mpi/differences.hpp"
#include "tests/mpi/shared_training.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct PieceTraining : SharedTraining {
  PieceTraining() : SharedTraining(long_layers()) { config.training.epochs = 3; }

  /// This rank's parameters and moments after training; whether all ranks that should have the same do, then and in
  /// the probes on the way; how much of other ranks' memory was mapped while it trained, and after.
  struct Numbers {
    std::vector<std::vector<float>> arenas;
    bool same = false, same_in_probes = true;
    int mapped = 0, mapped_after = 0;
  };
  Numbers train(bool in_pieces, int blocks) {
    Config own = config;
    own.data.shards = world.size() / blocks;
    if (!in_pieces) own.training.clip_norm = 1e30;  // needs all sums first, and changes nothing
    if (blocks > 1) own.run.grid = {{1, 1, blocks}};
    RunLog silent;
    const Plan plan = make_plan(own);
    std::optional<StageGrids> grids;
    if (blocks > 1)
      grids.emplace(*backend, own, plan, Shape{.spatial = {1, 1, kLength}, .channels = 2, .axes = 1}, world);
    Data data(own, world, Data::Reading::later);
    const RunContext ctx{*backend, world, data, silent, nullptr, false, grids ? &*grids : nullptr};
    data.load(grids ? grids->share({1, 1, 1}) : DataShare{world});
    ModelState model_state = make_model_state(plan, own, ctx, {1, 1, 1}, 1);
    Comm same_block = world.split(world.rank() % blocks);
    Numbers numbers;
    Phase phase = plan.last;
    phase.stop.probe_epochs = 1;
    const ProbeFunction probe = [&](ModelState& seen) {
      numbers.same_in_probes = same_block.all_equal(hash_of(seen)) && numbers.same_in_probes;
      numbers.mapped = mapped_blocks();
      return ProbeResult{.state = TrainState(phase), .halfway = 1, .end = 1, .second_gflop = 1};  // it continues
    };
    TrainingLoop loop(ctx, own.training);
    loop.train(model_state, phase, probe);
    numbers.mapped_after = mapped_blocks();
    numbers.same = same_block.all_equal(hash_of(model_state));
    for (const Span arena : arenas_of(model_state)) numbers.arenas.push_back(copy(arena));
    return numbers;
  }

 private:
  static std::vector<Span> arenas_of(ModelState& model_state) {
    std::vector<Span> arenas = model_state.optimizer.moments();
    arenas.insert(arenas.begin(), model_state.model.params());
    return arenas;
  }
  static std::uint64_t hash_of(ModelState& model_state) {
    std::uint64_t hash = 0;
    for (const Span arena : arenas_of(model_state))
      for (const float value : arena) hash = mix(hash, std::bit_cast<std::uint32_t>(value));
    return hash;
  }
  // Of other ranks: they may be read alone.
  static int mapped_blocks() {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);)
      count += line.find(" r--s ") != std::string::npos && line.find("/memfd:mrmf-") != std::string::npos ? 1 : 0;
    return count;
  }
};

}  // namespace

TEST_CASE("sharded update: parameters and moments are those that every rank computes by itself") {
  const int size = Comm::world().size();
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw})
    for (const int accumulate : {1, 2})
      for (const int blocks : {1, 2}) {
        if (size % blocks != 0) continue;
        CAPTURE(static_cast<int>(kind));
        CAPTURE(accumulate);
        CAPTURE(blocks);
        PieceTraining training;
        training.config.training.optimizer.name = kind;
        training.config.training.accumulate = accumulate;
        const PieceTraining::Numbers wanted = training.train(false, blocks), got = training.train(true, blocks);
        CHECK(wanted.same);
        CHECK(got.same);  // also the moments
        CHECK(got.same_in_probes);
        CHECK(wanted.mapped == 0);
        CHECK(got.mapped == (size <= 8 ? 2 * (size - 1) : 0));
        CHECK(got.mapped_after == 0);
        REQUIRE(got.arenas.size() == wanted.arenas.size());
        for (std::size_t i = 0; i < wanted.arenas.size(); ++i)
          CHECK(largest_difference(got.arenas[i], wanted.arenas[i]) < 1e-6);
        training.world.barrier();
      }
}
