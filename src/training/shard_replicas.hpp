// The same bits on any number of ranks and threads, on the CPU. A shard's share of every mini-batch is computed by
// itself, by one thread, whichever rank has the shard; and what the shares give is added in fixed point.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "layers/model.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

struct ShardReplicaSettings {
  NetworkSettings network;  ///< max_rows: of one shard's share
  LossKind loss = LossKind::mse;
  bool global_batch_norm = true;
  int own = 1, all = 1;  ///< shards: of this rank, of its team
};

/// What a replica computes with: a backend of the same kind, on one thread.
std::unique_ptr<Backend> one_thread_backend(const Backend& like);

/// A replica for every shard of this rank: a backend, a model's memory but for the parameters, and a thread. As many of
/// them compute at a time as OpenMP would give threads to the caller.
class ShardReplicas {
 public:
  /// Computes with the parameters of `model`, which must stay where it is, as must `team`. `backend` is any of its
  /// kind.
  ShardReplicas(const Backend& backend, Comm& team, Model& model, const ShardReplicaSettings& settings);
  ~ShardReplicas();

  /// Makes the plans for these numbers of rows.
  void prepare(const std::set<Index>& rows);

  /// Forward and backward. `rows`: of each own shard, in the order of the batch; zero is allowed, though not for all.
  /// Leaves the team's sums of gradients and loss in the model's reduced(), and the new running statistics in its
  /// state(): with local batch norm the mean over the shards. Collective.
  void train(const Step& step, std::span<const Index> rows, const Feed::Batch& batch);

  /// Forward of validation samples; each replica keeps the sum of its losses...
  void evaluate(const Step& step, std::span<const Index> rows, const Feed::Batch& batch);
  /// ...until here: the sum over all replicas of the team. Collective.
  double take_loss();

  /// What the sums took since the last call of this.
  SumTime take_time();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrmf
