// Replicas that give the same bits on any number of ranks and threads, on the CPU. One thread computes a shard's share
// of every mini-batch separately, on whichever rank has the shard. The shares' results are added in fixed point.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/training/metrics.hpp"
#include "src/training/replica_threads.hpp"

namespace mrmf {

struct ShardReplicaSettings {
  NetworkSettings network;  ///< max_rows: of one shard's share
  LossSettings loss;
  ScoreSettings scores;   ///< what is counted of outputs, besides the loss...
  bool measures = false;  ///< ...if anything is
  bool global_batch_norm = true;
  int own = 1, all = 1;  ///< shards: of this rank, of its team
};

/// A replica for every shard of this rank: a backend, a model's memory except the parameters, and a thread. As many of
/// them compute at a time as OpenMP would give threads to the caller.
class ShardReplicas {
 public:
  /// Computes with the parameters of `model`, which must not move; nor must `team`. `backend` is any of the same kind.
  ShardReplicas(const Backend& backend, Comm& team, Model& model, const ShardReplicaSettings& settings);
  ~ShardReplicas();

  /// Makes the plans for these numbers of rows.
  void prepare(const std::set<Index>& rows);

  /// Forward and backward. `rows` has one number per own shard, in the order of the batch; some may be zero, but not
  /// all. Leaves the team's sums of gradients and loss in the model's reduce_buffer(), and the new running statistics
  /// in its state() (with local batch norm, the mean over the shards). Collective. With Summed::scalars the gradients
  /// stay where they are, in gradients().
  enum class Summed { all, scalars };
  void train(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch,
             Summed summed = Summed::all);
  /// The gradients of each own shard, laid out as the model's; of a shard without rows those of an earlier step.
  std::vector<Span> gradients();

  /// The forward of train() alone, for its running statistics in the model's state(). Collective.
  void recalibrate(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch);

  /// Forward of validation samples; each replica keeps the sum of its losses...
  void evaluate(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch);
  /// ...until here: the sum over all replicas of the team. Collective.
  double take_loss();
  /// ...and the sums of the metrics.
  void take_metrics(MetricSums& total);

  /// Time of the sums since the last call.
  SumTime take_time();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
