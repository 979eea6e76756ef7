// What training refuses whatever the samples hold: rules of settings, ranks and numbers of samples, which a plan for
// ranks keeps as well. Those of batches: require_batches() (batches.hpp).
#pragma once

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

/// Whether each of data.shards is computed by itself, so that bits do not depend on the number of ranks: on the CPU
/// alone. On a device, `deterministic` holds only for one number of ranks.
bool shard_by_shard(const Config& config, bool on_cpu);

/// ConfigError: another number of ranks than run.ranks.
void require_ranks(const RunConfig& run, int ranks);

/// ConfigError: training.accumulate beside shards that are computed one by one.
void require_micro_batches(const Config& config, bool on_cpu);

/// ConfigError: training.update_in_place beside shards that are computed one by one, or where so many groups of ranks
/// have samples of their own.
void require_in_place(const Config& config, int groups, bool on_cpu);

/// ConfigError: method.switch = "slope", and an epoch of the last phase with this batch, on so many groups of ranks,
/// has one step only.
void require_probes(const Plan& plan, Index samples, Index batch, int groups);

/// Who shares a phase's mini-batches: so many groups of ranks, each of which trains phase.batch samples of the data's
/// `samples` in a step.
struct BatchShares {
  Shape sample;  ///< at full resolution
  Index samples = 0;
  int groups = 1;
  bool on_cpu = true;  ///< where training would run
};

/// What a phase's batches must fulfil, whoever asks: require_batches(), and batch norms that get more than one value
/// per channel in every step. The output of one over a single value would be the same for every sample. With
/// training.batch_norm = "local" that is one row on a rank, or in a shard that is computed by itself. ConfigError,
/// which names the layer.
void require_rows(const Config& config, const Plan& plan, const Phase& phase, const BatchShares& shares);

}  // namespace mrmf
