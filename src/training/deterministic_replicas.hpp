// Deterministic training: replicas that give the same bits on any number of ranks and threads, on the CPU, and their
// threads.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "layers/model.hpp"
#include "mpi/comm.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

// Threads that do parts of a job together and may wait for each other in the middle of it.

/// Each member keeps its thread for life and uses one OpenMP thread in it. At most `at_once` members compute at a time.
class ReplicaThreads {
 public:
  /// FaultError when that many threads cannot be started.
  ReplicaThreads(int size, int at_once);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs job(i) in every member i and returns when all are done. Whenever all unfinished members wait in barrier(),
  /// runs `at_barrier` in the caller's thread. When all members are done, throws the error of a job or of `at_barrier`.
  void run(
      const std::function<void(int)>& job, const std::function<void()>& at_barrier = [] {});
  /// Call from within a job: waits for the others, and for the end of `at_barrier`. All members that call it must call
  /// it equally often.
  void barrier();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void live(int member);
  void take_slot(Lock& lock);
  void leave_slot();
  void fail();
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;  // any of the following
  const std::function<void(int)>* job_ = nullptr;
  int jobs_ = 0, barriers_ = 0;  // so far
  int done_ = 0, waiting_ = 0;   // members, in the job under way
  int free_slots_;               // for members that compute
  bool end_ = false;
  std::exception_ptr error_;  // first error of the current job
  std::vector<std::thread> members_;
};

// Replicas that give the same bits on any number of ranks and threads, on the CPU. One thread computes a shard's share
// of every mini-batch separately, on whichever rank has the shard. The shares' results are added in fixed point.

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
