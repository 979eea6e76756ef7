// What is known of training before it starts: the memory that it will take on a rank of the CPU, and what it refuses
// whatever the samples hold, which a plan for ranks keeps as well. Checks of batches: require_batches() (batches.hpp).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "layers/execution.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

// Estimate of the memory that a run will take on a rank of the CPU, before it starts.

/// Bytes of this process that are in memory now.
Index resident_bytes();

/// Memory of a rank in training, in bytes.
struct RunMemory {
  Index program = 0;    ///< any run's base: this process before models are built, and the code that training runs
  Index models = 0;     ///< arenas and optimizer moments of the models that exist at once, of their replicas, and what
                        ///< sums of their gradients over ranks keep
  Index workspace = 0;  ///< private memory of the backend's operations: packed weights and scratch
  Index batches = 0;    ///< the batch of samples in training or validation
  Index saving = 0;     ///< a checkpoint or model on the root: what of a tensor is in memory for it at once
  Index data = 0;       ///< samples and labels at the resolutions that exist at once
  Index all() const { return program + models + workspace + batches + saving + data; }
  RunMemory operator+(const RunMemory& other) const;
};

/// The memory of one model in training with this execution, without the program, its libraries' scratch and data, and
/// without what sums in other ways than fp32 keep. So many ranks of the CPU sum its gradients.
RunMemory memory_of(const Network& network, const Execution& execution, const TrainingConfig& training, int ranks = 1);

/// What a rank with so many workers keeps for sums of so many gradients in this way, in bytes.
Index memory_of_sums(const SumSettings& sums, Index floats, int ranks, int workers = 1);

/// The splits as a rank holds them.
struct HeldData {
  std::vector<DataPart> parts;
  std::vector<StoreSettings> stores;  ///< one per part
};

/// Adds up a run's memory from its models' sizes and from what making their operations takes. These stay until the end,
/// as those of a run's two models do.
class MemoryCount {
 public:
  /// `replicas` is a rank's number of them (src/training/deterministic_replicas.hpp); 0: it computes whole batches.
  /// `ranks` is the run's number of ranks.
  MemoryCount(Backend& backend, const TrainingConfig& training, int replicas, int ranks = 1);
  ~MemoryCount();

  /// Adds the model at the plan's next resolution, and its batches; with a grid, as the first block's rank has it.
  const RunMemory& add(const NetworkSettings& settings, const Grid& grid = {});

  /// The largest sum over models that exist at once (two before a fusion). Includes the program and, if `held` is
  /// given, the data for those models' resolutions.
  RunMemory peak(const Plan& plan, const std::optional<HeldData>& held) const;

 private:
  struct Built;
  Backend& backend_;
  TrainingConfig training_;
  int replicas_, ranks_;
  Index program_;
  std::unique_ptr<Backend> replica_backend_;
  std::vector<std::unique_ptr<Built>> built_;
  std::vector<RunMemory> models_;
  std::vector<Index> params_;  // floats of each
};

// What training refuses whatever the samples hold: rules of settings, ranks and numbers of samples, which a plan for
// ranks keeps as well. Those of batches: require_batches() (batches.hpp).

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
