#include "src/training/training_checks.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/training/batches.hpp"

namespace mrmf {

bool shard_by_shard(const Config& config, bool on_cpu) {
  return config.run.deterministic && config.data.shards > 0 && on_cpu;
}

void require_ranks(const RunConfig& run, int ranks) {
  if (run.ranks == 0 || run.ranks == ranks) return;
  throw ConfigError(fmt::format(
      "run.ranks = {}, and this run has {} rank{}: batches are per rank, so it would train otherwise; start it "
      "with mpirun -n {} (srun -n {}), or set run.ranks = 0 to run on any number",
      run.ranks, ranks, ranks == 1 ? "" : "s", run.ranks, run.ranks));
}

void require_micro_batches(const Config& config, bool on_cpu) {
  if (shard_by_shard(config, on_cpu) && config.training.accumulate > 1)
    throw ConfigError(
        "training.accumulate does not go with run.deterministic and data.shards on the CPU, where every shard is "
        "computed by itself: more shards take less memory; remove one of them");
}

void require_in_place(const Config& config, int groups, bool on_cpu) {
  if (!config.training.update_in_place) return;
  const std::string what = "training.update_in_place updates a weight as soon as its gradient is known, and ";
  if (shard_by_shard(config, on_cpu))
    throw ConfigError(what + "run.deterministic with data.shards adds those of all shards first; remove one");
  if (groups > 1)
    throw ConfigError(what + fmt::format("{} groups of ranks have samples of their own, whose gradients are added "
                                         "first; let all ranks share each sample (run.grid), or remove it",
                                         groups));
}

void require_probes(const Plan& plan, Index samples, Index batch, int groups) {
  const bool probes = std::ranges::any_of(plan.stages, [](const Stage& s) { return s.coarse.stop.probe_epochs > 0; });
  if (probes && samples <= batch * groups)
    throw ConfigError(
        fmt::format("method.switch = \"slope\" needs two steps or more in an epoch of the last phase, and its batch of "
                    "{} on {} rank{} takes all {} samples at once; use a smaller method.finetune.batch",
                    batch, groups, groups == 1 ? "" : "s", samples));
}

namespace {

/// Whose rows a batch norm's statistics are of.
enum class NormRows { team, rank, shard };

NormRows norm_rows(const Config& config, bool on_cpu) {
  if (config.training.global_batch_norm) return NormRows::team;
  return shard_by_shard(config, on_cpu) ? NormRows::shard : NormRows::rank;
}

// The fewest rows that one statistic is of, over the micro-batches of all steps of an epoch. Shards have two sizes,
// whose rows change at one step each, so three steps stand for all.
Index least_rows(const OrderSettings& order, NormRows of, int micro_batches) {
  const Index steps = steps_per_epoch(order), own = order.shards / order.ranks;
  Index least = order.samples * order.repeats;
  const auto take = [&](Index rows) {
    if (rows > 0) least = std::min(least, rows);
  };
  const Index size = order.samples / order.shards * order.repeats;
  for (const Index step : {Index{0}, size % steps, (size + order.repeats) % steps}) {
    std::vector<Index> team(static_cast<std::size_t>(micro_batches));
    for (Index rank = 0; rank < order.ranks; ++rank) {
      Index rows = 0;
      for (Index shard = rank * own; shard < (rank + 1) * own; ++shard) {
        const Index all = piece(order.samples, shard, order.shards).count * order.repeats;
        const Index here = piece(all, step, steps).count;
        if (of == NormRows::shard) take(here);
        rows += here;
      }
      for (int number = 0; number < micro_batches; ++number) {
        const Index here = piece(rows, number, micro_batches).count;
        if (of == NormRows::rank) take(here);
        team[static_cast<std::size_t>(number)] += here;
      }
    }
    if (of == NormRows::team) std::ranges::for_each(team, take);
  }
  return least;
}

void require_norms(const Config& config, const Plan& plan, const Phase& phase, const BatchShares& shares) {
  OrderSettings order = order_settings(config.data, shares.samples, shares.groups, 0);
  order.batch = phase.batch;
  order.repeats = boxes_of_each(config.data, shares.sample, phase.resolution);
  const NormRows of = norm_rows(config, shares.on_cpu);
  if (least_rows(order, of, config.training.accumulate) > 1) return;
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(config, plan, shares.sample, phase.resolution));
  for (const LayerEntry& entry : network.entries()) {
    if (entry.kind != LayerKind::batch_norm || product(entry.input.spatial) > 1) continue;
    const char* whose = of == NormRows::team ? "" : of == NormRows::rank ? " on a rank" : " in a shard";
    throw ConfigError(fmt::format(
        "{}: in training a batch norm needs more than one value per channel, and batch {} of {} brings it a single row "
        "of one position{} in some steps ({} samples); use a larger batch{}, or layer_norm in its place",
        entry.name, phase.batch, phase_text(phase), whose, shares.samples,
        of == NormRows::team ? "" : " or training.batch_norm = \"global\""));
  }
}

}  // namespace

void require_rows(const Config& config, const Plan& plan, const Phase& phase, const BatchShares& shares) {
  require_batches(config.data, {shares.samples, shares.sample}, phase, shares.groups, config.training.accumulate);
  require_norms(config, plan, phase, shares);
}

}  // namespace mrmf
