#include "src/training/training_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "src/training/batches.hpp"

namespace mrmf {
namespace {

ScoreSettings scored(const TrainingConfig& training, const Shape& output, Index target_channels,
                     const SampleStore& store) {
  ScoreSettings settings = score_settings(training, output, target_channels, metric_of(training, output));
  if (training.loss.task() == Task::regression) settings.units = store.label_units();
  return settings;
}

}  // namespace

Objective::Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
                     const Extent& resolution, const std::optional<Shape>& whole)
    : backend_(backend),
      resolution_(resolution),
      target_channels_(mrmf::target_channels(store.target(resolution), model.network().output())),
      loss_(backend.loss(training.loss, model.output(), target_channels_)),
      cut_(model.output().spatial != model.network().output().spatial),
      metric_(metric_of(training, model.output())),
      sums_(scored(training, whole.value_or(model.output()), target_channels_, store)) {}

// Where every rank of a grid has all of the output, there is nothing to add up.
void Objective::run(const StepContext& step, ConstTensor y, ConstTensor targets, Span dy, Span sum) {
  StepContext own = step;
  if (!cut_) own.sample_sum = nullptr;
  loss_->run(own, y, targets, dy, sum);
}

// A device waits here for each batch: which output is the largest is found on the host.
void Objective::add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids) {
  if (!metric_ || !model.execution().counts) return;
  const ConstTensor y = model.output(std::ssize(ids));
  std::vector<float> outputs(static_cast<std::size_t>(y.shape.count()));
  backend_.read_activation(y, outputs);
  const Shape target = store.target(resolution_).with_rows(std::ssize(ids));
  std::vector<float> targets(static_cast<std::size_t>(target.count()));
  store.gather_labels(resolution_, ids, targets);
  if (cut_) {
    const Shape whole = with_positions(target, model.network().output().spatial);
    const Box& box = model.execution().output_box;
    std::vector<float> own(ids.size() * static_cast<std::size_t>(product(box.count) * whole.channels));
    take_box({whole, targets}, box, own);
    targets = std::move(own);
  }
  sums_.add(outputs, targets);
}

std::optional<MetricValue> Objective::metric() const {
  if (!metric_) return {};
  return MetricValue{*metric_, sums_.value(*metric_)};
}

namespace {

TimeShares time_shares_of(const EpochTime& time, Comm& team) {
  const auto over_ranks = [&](double seconds) {
    const std::vector<double> all = team.all_gather(seconds);
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return RankSeconds{std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()), *least, *most};
  };
  return {over_ranks(time.io), over_ranks(time.compute), over_ranks(time.communication), over_ranks(time.hidden).mean};
}

// The mean over the ranks, because one saved time stands for all of them.
EpochTime mean_time(const EpochTime& time, Comm& team) {
  std::array<double, 4> parts{time.io, time.compute, time.communication, time.hidden};
  team.sum(parts);
  for (double& part : parts) part /= team.size();
  return {parts[0], parts[1], parts[2], parts[3]};
}

}  // namespace

void EpochClock::add(const SumTime& sums) {
  // A device may wait for a sum while the host gathers the next batch. That part already counts as I/O.
  const double waited = std::min(sums.waited, time_.compute);
  time_.compute -= waited;
  time_.communication += waited;
  time_.hidden += sums.hidden;
}

void EpochClock::end_epoch(EpochRecord& record, Comm& team) {
  record.total_seconds = total_seconds();
  record.seconds = record.total_seconds - epoch_start_;
  record.time_shares = time_shares_of(time_, team);
  epoch_start_ = record.total_seconds;
  time_ = {};
}

void EpochClock::save(TrainState& state, Comm& team) const {
  state.time = mean_time(time_, team);
  state.epoch_start = epoch_start_;
  state.total_seconds = total_seconds();
}

void EpochClock::resume_from(const TrainState& state) {
  earlier_ = std::max(earlier_, state.total_seconds);
  epoch_start_ = state.epoch_start;
  time_ = state.time;
}

namespace {

PhaseBatches make_batches(TrainingSession& session, const Model& model, const Phase& phase) {
  const RunContext& ctx = session.ctx;
  const Timer timer;
  std::optional<PhaseBatches> batches;
  collective_try(ctx.team, [&] {
    const Index rows = session.config.rows_at_once(phase.batch);
    const Execution& execution = model.execution();
    const SampleBlock block{execution.input_box, execution.output_box, model.network().output().spatial};
    const SampleBlock* const own = ctx.grid(phase.resolution) != nullptr ? &block : nullptr;
    batches.emplace(PhaseBatches{{ctx.backend, ctx.data.train(), phase.resolution, rows, own}, {}});
    if (!ctx.data.train().boxes)
      batches->validation.emplace(ctx.backend, ctx.data.validation(), phase.resolution, rows, own);
  });
  session.clock.time().io += timer.seconds();
  return std::move(*batches);
}

std::unique_ptr<ShardReplicas> make_replicas(TrainingSession& session, ModelState& model_state, const Phase& phase,
                                             const Objective& objective) {
  if (!session.ctx.shard_replicas) return nullptr;
  const BatchSampler::Shards shards = session.sampler.shards(phase);
  ShardReplicaSettings settings{.network = model_state.network_settings,
                                .loss = session.config.loss,
                                .scores = objective.scores(),
                                .measures = objective.measures(),
                                .global_batch_norm = session.config.global_batch_norm,
                                .own = shards.own,
                                .all = shards.all};
  settings.network.max_rows = shards.most_rows;
  return std::make_unique<ShardReplicas>(session.ctx.backend, session.ctx.team, model_state.model, settings);
}

std::unique_ptr<WorkerSums> make_worker_sums(TrainingSession& session, ModelState& model_state,
                                             const SumSettings& sums) {
  if (sums.adds_plainly() || model_state.workers.count().all == 1) return nullptr;
  const RunContext& ctx = session.ctx;
  return std::make_unique<WorkerSums>(model_state, sums, ctx.backend, ctx.team, session.all_reduce.get());
}

// Where ranks have other numbers of rows than their neighbours.
void tell_unequal_rows(const PhaseContext& context, const EpochOrder& order) {
  if (!context.worker_sums || !context.worker_sums->adds_directions()) return;
  const WorkerCount& count = context.model_state.workers.count();
  bool unequal = false;
  for (std::size_t k = 0; k < order.steps.size(); ++k)
    for (const Index rows : worker_rows(context, order, k))
      unequal = unequal || rows * count.all != order.global_rows[k];
  if (!context.session.ctx.team.any(unequal)) return;
  context.session.ctx.log.line(
      fmt::format("{}: some steps have unequal numbers of rows on the {} ranks or shards; what each says is weighed by "
                  "them",
                  phase_text(context.phase), count.all));
}

std::unique_ptr<WindowedModel> make_windowed(TrainingSession& session, Model& model, const Phase& phase) {
  Data& data = session.ctx.data;
  if (!data.train().boxes) return nullptr;
  SampleGrid* const grid = session.ctx.grid(phase.resolution);
  return std::make_unique<WindowedModel>(session.ctx.backend, model, data.config(), phase.resolution,
                                         data.validation().store->sample(phase.resolution),
                                         grid != nullptr ? &grid->sample_group() : nullptr);
}

}  // namespace

Index EpochSteps::rows(std::size_t first, std::size_t last) const {
  const auto begin = order.global_rows.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
                         Index{0});
}

PhaseContext::PhaseContext(TrainingSession& session_of, ModelState& trained, const Phase& its_phase,
                           const BatchSampler::First& order)
    : session(session_of),
      model_state(trained),
      phase(its_phase),
      grid(session.ctx.grid(phase.resolution)),
      batches(make_batches(session, model(), phase)),
      windowed(make_windowed(session, model(), phase)),
      objective(backend(), session.config, model(), *session.ctx.data.train().store, phase.resolution,
                windowed ? std::optional(windowed->output()) : std::nullopt),
      capture_keys(session.sampler.capture_keys(order.micro_batches)),
      losses(backend().allocate(std::ssize(order.training.steps) + std::ssize(order.validation.steps))),
      summed(session.config.accumulate > 1 ? backend().allocate(std::ssize(model().reduce_buffer())) : Arena()),
      clip(session.config.clip_norm > 0 ? backend().clip(std::ssize(model().grads())) : nullptr),
      replicas(make_replicas(session, model_state, phase, objective)) {
  const RunContext& ctx = session.ctx;
  AllReduce* const sums = session.all_reduce.get();
  // What comes after an update changes all parameters, which other ranks may still be reading.
  const bool by_pieces =
      sums != nullptr && sums->updates() && !replicas && !model().constrains() && !model().has_terms();
  if (updates_in_pieces(session.config, phase.sums, by_pieces))
    sharded.emplace(model_state, ShardedUpdate::Ranks{*sums, ctx.team, ctx.data_parallel_team(phase.resolution)});
  if (model().has_terms()) parts.emplace(session.config, phase.optimizer, model());
  worker_sums = make_worker_sums(session, model_state, phase.sums);
  tell_unequal_rows(*this, order.training);
  if (replicas) {
    replicas->prepare(order.shard_rows());
  } else {
    for (const Index rows : order.rows()) model().prepare(rows);
  }
}

std::vector<Index> worker_rows(const PhaseContext& context, const EpochOrder& order, std::size_t k) {
  if (!context.replicas) return {order.steps[k].count};
  const std::span<const Index> rows = shard_rows(order, k);
  return {rows.begin(), rows.end()};
}

void prepare_workers(TrainingSession& session, ModelState& model_state, const Phase& phase) {
  WorkerCount count{1, session.ctx.team.size()};
  if (session.ctx.shard_replicas) {
    const BatchSampler::Shards shards = session.sampler.shards(phase);
    count = {shards.own, shards.all};
  }
  const std::vector<Span> moments = model_state.optimizer.moments();
  model_state.workers.prepare(session.ctx.backend, phase.sums, count, moments.empty() ? Span{} : moments.front());
}

OptimizerSettings optimizer_at(const Phase& phase, const TrainState& state) {
  OptimizerSettings settings = phase.optimizer;
  settings.weight_decay *= state.tournament.weight_decay;
  return settings;
}

PhaseContext begin_phase(TrainingSession& session, ModelState& model_state, const Phase& phase,
                         const TrainState& state) {
  compare_ranks(session, model_state, state, "at the start of " + phase_text(phase));
  model_state.optimizer.configure(optimizer_at(phase, state));
  prepare_workers(session, model_state, phase);
  if (state.stop.epochs() == 0 && state.step == 0) {
    model_state.workers.begin(session.ctx.backend);
    model_state.model.copy_weights(Copied::all);  // parameters may have come from another run
  }
  session.clock.time().io += session.ctx.make_data_ready(phase.resolution);
  session.ctx.backend.drop_captures();
  return {session, model_state, phase, session.sampler.first(phase)};
}

void PhaseContext::read_ahead(const EpochSteps& epoch, std::size_t first) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  batches.training.expect(session.sampler.in_micro_batches(left));
  if (batches.validation)
    batches.validation->expect(session.sampler.validation(phase.batch));
  else
    expect_whole();
}

EpochOrder PhaseContext::expect_whole() {
  SampleStore& store = *session.ctx.data.validation().store;
  EpochOrder order = in_order(store.owned(), 1);
  store.expect(phase.resolution, order);
  return order;
}

void PhaseContext::read_ahead(int epoch) {
  if (!session.ctx.data.streams() || epoch >= phase.stop.epochs) return;
  batches.training.expect(session.sampler.in_micro_batches(session.sampler.training(phase, epoch)));
}

void PhaseContext::load(Batches& of, std::span<const std::int64_t> ids) {
  EpochTime& time = session.clock.time();
  Timer timer;
  if (!session.ctx.data.streams()) {
    of.load(ids);
    time.io += timer.lap();
    return;
  }
  collective_try(session.ctx.team, [&] {
    of.load(ids);
    time.io += timer.lap();
  });
  time.communication += timer.lap();
}

void PhaseContext::add_grid(StepContext& step) const {
  if (grid == nullptr) return;
  step.halo_messages = &grid->messages();
  step.sample_sum = grid->over_sample_group();
  step.share = model().execution().share;
  if (step.training) step.same_block_sum = grid->over_same_block();
}

std::vector<float> PhaseContext::read_losses(std::size_t first, std::size_t last) {
  std::vector<float> values(last - first);
  backend().read(losses.span().subspan(first, values.size()), values);
  return values;
}

void PhaseContext::end_momenta() {
  if (!worker_sums) return;
  const Timer timer;
  worker_sums->end();
  session.clock.time().communication += timer.seconds();
}

void PhaseContext::complete_moments() {
  if (!sharded) return;
  const Timer timer;
  sharded->complete();
  session.clock.time().communication += timer.seconds();
}

void PhaseContext::take_counts(TrainState& state) {
  EpochClock& clock = session.clock;
  if (replicas)
    clock.add(replicas->take_time());
  else if (session.all_reduce)
    clock.add(session.all_reduce->take_time());
  if (worker_sums) clock.add(worker_sums->take_time());
  if (grid != nullptr) clock.add(grid->take_time());
  const Timer timer;
  double sent = session.all_reduce ? session.all_reduce->take_sent() : 0;
  // Codes have lengths of their own on every rank; of other sums all ranks send as much.
  if (worker_sums) sent = session.ctx.team.sum(sent + worker_sums->take_sent()) / session.ctx.team.size();
  state.sent += sent;
  std::int64_t rows = std::exchange(trained_rows, 0);
  session.ctx.data_parallel_team(phase.resolution).sum(std::span(&rows, 1));
  state.samples += rows;
  clock.time().communication += timer.seconds();
}

// In the middle of an epoch, ranks may have their own statistics.
void compare_ranks(TrainingSession& session, ModelState& model_state, const TrainState& state,
                   const std::string& position) {
  const RunContext& ctx = session.ctx;
  const Timer timer;
  const bool own_state = !session.config.global_batch_norm && !ctx.shard_replicas && state.step > 0;
  require_same_model(ctx.backend, model_state.model, own_state ? Compared::parameters : Compared::parameters_and_state,
                     {ctx.team, ctx.data_parallel_team(model_state.resolution)}, position);
  if (ctx.saving) ctx.saving->times.compared();
  session.clock.time().communication += timer.seconds();
}

}  // namespace mrmf
