#include "src/training/run_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/check.hpp"

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

void require_parts(const Config& config, bool on_cpu) {
  if (shard_by_shard(config, on_cpu) && config.training.accumulate > 1)
    throw ConfigError(
        "training.accumulate does not go with run.deterministic and data.shards on the CPU, where every shard is "
        "computed by itself: more shards take less memory; remove one of them");
}

void require_looks(const Plan& plan, Index samples, Index batch, int groups) {
  const bool looks = std::ranges::any_of(plan.stages, [](const Stage& s) { return s.coarse.stop.look_epochs > 0; });
  if (looks && samples <= batch * groups)
    throw ConfigError(
        fmt::format("method.switch = \"slope\" needs two steps or more in an epoch of the last phase, and its batch of "
                    "{} on {} rank{} takes all {} samples at once; use a smaller method.finetune.batch",
                    batch, groups, groups == 1 ? "" : "s", samples));
}

}  // namespace mrmf
