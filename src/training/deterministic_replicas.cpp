#include "src/training/deterministic_replicas.hpp"

#include <omp.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "mpi/cores.hpp"

namespace mrmf {

ReplicaThreads::ReplicaThreads(int size, int at_once) : free_slots_(std::max(at_once, 1)) {
  try {
    for (int i = 0; i < size; ++i) members_.emplace_back([this, i] { live(i); });
  } catch (const std::exception& error) {
    end();
    throw FaultError("cannot start " + std::to_string(size) + " threads, one per own shard (" + error.what() +
                     "); use more ranks or fewer data.shards, or raise the limit on processes and memory (ulimit -u, "
                     "ulimit -v, or the job's)");
  }
}

ReplicaThreads::~ReplicaThreads() { end(); }

void ReplicaThreads::end() {
  {
    const Lock lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  for (std::thread& member : members_) member.join();
}

void ReplicaThreads::run(const std::function<void(int)>& job, const std::function<void()>& at_barrier) {
  Lock lock(mutex_);
  job_ = &job;
  done_ = 0;
  ++jobs_;
  changed_.notify_all();
  const int all = static_cast<int>(members_.size());
  while (done_ < all) {
    changed_.wait(lock, [&] { return done_ + waiting_ == all; });
    if (waiting_ == 0) break;
    if (!error_) {
      lock.unlock();
      try {
        at_barrier();
        lock.lock();
      } catch (...) {
        lock.lock();
        fail();
      }
    }
    waiting_ = 0;
    ++barriers_;
    changed_.notify_all();
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ReplicaThreads::barrier() {
  Lock lock(mutex_);
  const int before = barriers_;
  leave_slot();
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return barriers_ != before; });
  take_slot(lock);
  if (error_) throw FaultError("another part of the same step failed");
}

void ReplicaThreads::live(int member) {
  omp_set_num_threads(1);
  // OpenMP binds a thread in its first region: all of these to one place. A region that does nothing is no region.
#pragma omp parallel num_threads(1)
  omp_get_place_num();
  leave_place();
  Lock lock(mutex_);
  for (int seen = 0;; ++seen) {
    changed_.wait(lock, [&] { return end_ || jobs_ > seen; });
    if (end_) return;
    take_slot(lock);
    lock.unlock();
    try {
      (*job_)(member);
      lock.lock();
    } catch (...) {
      lock.lock();
      fail();
    }
    leave_slot();
    ++done_;
    changed_.notify_all();
  }
}

void ReplicaThreads::take_slot(Lock& lock) {
  changed_.wait(lock, [&] { return free_slots_ > 0; });
  --free_slots_;
}

void ReplicaThreads::leave_slot() { ++free_slots_; }

void ReplicaThreads::fail() {
  if (!error_) error_ = std::current_exception();
}

namespace {

/// A replica's rows of a batch.
struct Share {
  const StepContext& step;  // the step of the whole batch
  const Feed::Batch& batch;
  Index first = 0, rows = 0;
};

// The replica's own copy of its rows, which is aligned alike on every rank.
ConstTensor copy_rows(const ConstTensor& from, const Share& share, Arena& to) {
  const auto row = static_cast<std::size_t>(from.shape.per_sample());
  const auto first = static_cast<std::size_t>(share.first), rows = static_cast<std::size_t>(share.rows);
  const Span copy = to.span().first(rows * row);
  std::ranges::copy(from.data.subspan(first * row, rows * row), copy.begin());
  return {from.shape.with_rows(share.rows), copy};
}

// Made and used in one of the replica threads. As an AllReduce it adds batch norm's statistics, at a barrier of all
// replicas.
class ShardReplica final : public AllReduce {
 public:
  ShardReplica(const Backend& like, Model& leader, const ShardReplicaSettings& settings, ReplicaThreads& workers)
      : settings_(settings),
        leader_(leader),
        workers_(workers),
        backend_(make_one_thread_backend(like)),
        model_(*backend_, {settings.network, 0, true}, leader.params()),
        x_(backend_->allocate(model_.network().input().count())),
        targets_(backend_->allocate(model_.max_rows() * product(model_.network().output().spatial) *
                                    settings.scores.target_channels)),
        loss_op_(backend_->loss(settings.loss, model_.network().output(), settings.scores.target_channels)),
        metrics_(settings.scores) {}

  Model& model() { return model_; }
  std::span<double> statistics() { return statistics_; }
  double& loss() { return loss_; }
  MetricSums& metrics() { return metrics_; }

  void train(const Share& share) {
    StepContext step = step_of(share);
    const ConstTensor x = copy_rows(share.batch.x, share, x_);
    const ConstTensor targets = copy_rows(share.batch.targets, share, targets_);
    if (model_.has_terms()) {
      step.labels = targets;
      model_.forward(step, x);
    } else {
      forward(step, x, targets, model_.output_gradient(share.rows));
    }
    model_.backward(step, x);
  }
  void evaluate(const Share& share) {
    const ConstTensor targets = copy_rows(share.batch.targets, share, targets_);
    forward(step_of(share), copy_rows(share.batch.x, share, x_), targets, {});
    loss_ += model_.loss()[0];
    if (settings_.measures) metrics_.add(model_.output(share.rows).data, targets.data);
  }
  void recalibrate(const Share& share) { model_.forward(step_of(share), copy_rows(share.batch.x, share, x_)); }
  void follow() { std::ranges::copy(leader_.state(), model_.state().begin()); }

  void sum(std::span<double> values) override {
    statistics_ = values;
    workers_.barrier();
  }
  // Gradients are added after all replicas are done.
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }

 private:
  StepContext step_of(const Share& share) {
    StepContext step = share.step;
    step.ids = step.ids.subspan(static_cast<std::size_t>(share.first), static_cast<std::size_t>(share.rows));
    step.team_sum = settings_.global_batch_norm && step.training ? this : nullptr;
    return step;
  }
  void forward(const StepContext& step, const ConstTensor& x, const ConstTensor& targets, Span dy) {
    const ConstTensor y = model_.forward(step, x);
    loss_op_->run(step, y, targets, dy, model_.loss());
  }

  const ShardReplicaSettings& settings_;
  Model& leader_;
  ReplicaThreads& workers_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  Arena x_, targets_;
  std::span<double> statistics_;  // statistics of the batch norm under way
  std::unique_ptr<LossOp> loss_op_;
  MetricSums metrics_;
  double loss_ = 0;  // loss of the samples evaluated so far
};

}  // namespace

struct ShardReplicas::State {
  ShardReplicaSettings settings;
  Comm& team;
  Model& model;
  SumTime time;
  std::vector<std::unique_ptr<ShardReplica>> replicas;
  ReplicaThreads workers;  // last: its threads must end before the objects they use

  State(const Backend& backend, Comm& team_of, Model& leader, const ShardReplicaSettings& replica_settings)
      : settings(replica_settings),
        team(team_of),
        model(leader),
        replicas(static_cast<std::size_t>(settings.own)),
        workers(settings.own, omp_get_max_threads()) {
    workers.run([&](int i) { at(i) = std::make_unique<ShardReplica>(backend, model, settings, workers); });
  }

  std::unique_ptr<ShardReplica>& at(int i) { return replicas[static_cast<std::size_t>(i)]; }

  // total = the sum of one span from each of these replicas, over the team.
  template <class Value, class SpanOf>
  void add(const std::vector<ShardReplica*>& of, const SpanOf& span_of, std::span<Value> total) {
    std::vector<std::span<const Value>> summands;
    for (ShardReplica* replica : of) summands.push_back(span_of(*replica));
    team.sum_summands(summands, settings.all, total);
  }

  std::vector<ShardReplica*> everyone() const {
    std::vector<ShardReplica*> all;
    for (const auto& replica : replicas) all.push_back(replica.get());
    return all;
  }
  // The replicas whose shard has rows in this batch.
  std::vector<ShardReplica*> busy(std::span<const Index> rows) const {
    std::vector<ShardReplica*> busy;
    for (std::size_t i = 0; i < replicas.size(); ++i)
      if (rows[i] > 0) busy.push_back(replicas[i].get());
    return busy;
  }

  void run(
      const std::vector<Share>& shares, void (ShardReplica::*action)(const Share&),
      const std::function<void()>& at_barrier = [] {}) {
    workers.run(
        [&](int i) {
          const Share& share = shares[static_cast<std::size_t>(i)];
          at(i)->follow();
          if (share.rows > 0) (*at(i).*action)(share);
        },
        at_barrier);
  }

  // Adds batch norm's sums of the waiting replicas.
  void add_statistics(const std::vector<ShardReplica*>& waiting) {
    const Timer timer;
    std::vector<double> total(waiting.front()->statistics().size());
    add(
        waiting, [](ShardReplica& replica) { return replica.statistics(); }, std::span(total));
    for (ShardReplica* replica : waiting) std::ranges::copy(total, replica->statistics().begin());
    time.waited += timer.seconds();
  }

  void update_state(const std::vector<ShardReplica*>& busy) {
    const Span state = model.state();
    if (settings.global_batch_norm) {  // it is the same in every replica that had rows
      std::ranges::copy(busy.front()->model().state(), state.begin());
      return;
    }
    add(
        everyone(), [](ShardReplica& replica) { return replica.model().state(); }, state);
    for (float& value : state) value = static_cast<float>(double{value} / settings.all);
  }
};

namespace {

std::vector<Share> shares_of(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch) {
  std::vector<Share> shares;
  Index first = 0;
  for (const Index count : rows) {
    shares.push_back({step, batch, first, count});
    first += count;
  }
  return shares;
}

}  // namespace

ShardReplicas::ShardReplicas(const Backend& backend, Comm& team, Model& model, const ShardReplicaSettings& settings)
    : state_(std::make_unique<State>(backend, team, model, settings)) {}
ShardReplicas::~ShardReplicas() = default;

void ShardReplicas::prepare(const std::set<Index>& rows) {
  state_->workers.run([&](int i) {
    for (const Index count : rows) state_->at(i)->model().prepare(count);
  });
}

void ShardReplicas::recalibrate(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch) {
  const std::vector<ShardReplica*> busy = state_->busy(rows);
  state_->run(shares_of(step, rows, batch), &ShardReplica::recalibrate, [&] { state_->add_statistics(busy); });
  if (state_->settings.global_batch_norm) return state_->update_state(busy);
  // Unlike in training, a shard without rows has nothing to tell.
  const Span state = state_->model.state();
  state_->add(
      busy, [](ShardReplica& replica) { return replica.model().state(); }, state);
  const double shards = state_->team.sum(static_cast<double>(busy.size()));
  for (float& value : state) value = static_cast<float>(value / shards);
}

std::vector<Span> ShardReplicas::gradients() {
  std::vector<Span> all;
  for (ShardReplica* replica : state_->everyone()) all.push_back(replica->model().grads());
  return all;
}

void ShardReplicas::train(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch,
                          Summed summed) {
  const std::vector<ShardReplica*> busy = state_->busy(rows);
  state_->run(shares_of(step, rows, batch), &ShardReplica::train, [&] { state_->add_statistics(busy); });
  const Timer timer;
  const std::size_t first = summed == Summed::all ? 0 : state_->model.grads().size();
  state_->add(
      busy, [&](ShardReplica& replica) { return replica.model().reduce_buffer().subspan(first); },
      state_->model.reduce_buffer().subspan(first));
  state_->update_state(busy);
  state_->time.waited += timer.seconds();
}

void ShardReplicas::evaluate(const StepContext& step, std::span<const Index> rows, const Feed::Batch& batch) {
  state_->run(shares_of(step, rows, batch), &ShardReplica::evaluate);
}

double ShardReplicas::take_loss() {
  double sum = 0;
  state_->add(
      state_->everyone(), [](ShardReplica& replica) { return std::span(&replica.loss(), 1); }, std::span(&sum, 1));
  for (const auto& replica : state_->replicas) replica->loss() = 0;
  return sum;
}

void ShardReplicas::take_metrics(MetricSums& total) {
  state_->add(
      state_->everyone(), [](ShardReplica& replica) { return replica.metrics().values(); }, total.values());
  for (const auto& replica : state_->replicas) {
    total.ranked().take(replica->metrics().ranked());
    replica->metrics().clear();
  }
  if (!total.ranked().empty()) total.ranked().sum(state_->team);
}

SumTime ShardReplicas::take_time() { return std::exchange(state_->time, {}); }

}  // namespace mrmf
