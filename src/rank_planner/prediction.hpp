// Seconds of an epoch and memory of a rank, for one phase of a plan on so many ranks with one grid. The slowest block
// counts.
#pragma once

#include "src/plan/plan.hpp"
#include "src/rank_planner/cost_model.hpp"
#include "src/training/memory_estimate.hpp"

namespace mrmf {

/// Where an epoch's seconds go.
struct EpochSeconds {
  double compute = 0;   ///< forward, loss and backward
  double waiting = 0;   ///< for the slowest rank, in training and validation
  double messages = 0;  ///< between the ranks that share samples
  double sums = 0;      ///< over ranks: gradients and statistics
  double update = 0;    ///< optimizer
  double load = 0;      ///< batches from memory or, streamed, as far as files are slower than the rest
  double validation = 0;
  double all() const { return compute + waiting + messages + sums + update + load + validation; }
};

/// What is trained, and on what.
struct Workload {
  NetworkSettings network;  ///< max_rows does not matter
  Grid grid{};
  RankLayout ranks{};
  Index batch = 1;                    ///< batch of a sample group
  double samples = 0, validated = 0;  ///< training and validation samples of an epoch, over all ranks
  double sample_bytes = 0;            ///< bytes of a whole sample in its file, at full resolution; 0: unknown
  bool streamed = false;              ///< samples are read again in every epoch
  bool reproducible_sums = false;     ///< sums do not depend on the order of ranks (Comm::sum_reproducibly)
  TrainingConfig training{};

  int sample_groups() const { return ranks.ranks / grid.ranks(); }
};

/// What a unit of the slowest block costs in a training step: a layer, or several fused into one, with the exchange in
/// front of it.
struct LayerCost {
  std::string first, last;  ///< names of its layers; both empty: what the last layer's output is exchanged for
  Shape block, whole;       ///< its output on this block, and of whole samples
  double compute = 0;       ///< seconds, with the copies of a halo exchange
  double message_seconds = 0;
  int messages = 0;  ///< that this rank sends, forward and backward
  double sent = 0;   ///< bytes of them
  double seconds() const { return compute + message_seconds; }
};

struct Prediction {
  EpochSeconds epoch;
  Index steps = 0;
  RunMemory memory;  ///< memory of the rank that needs most; without the program and its libraries' scratch
  GridLayers layers;
  std::vector<LayerCost> costs;      ///< costs of the slowest block, in the order of execution
  int slowest = 0;                   ///< block
  double sent = 0;                   ///< bytes that the slowest block sends in a step's forward and backward
  double measured = 0, between = 0;  ///< shares of the computed time that come from exact or neighbouring sizes
};

/// ConfigError where the grid does not fit the network (Partition).
Prediction predict(Backend& backend, const CostModel& costs, const Workload& work);

}  // namespace mrmf
