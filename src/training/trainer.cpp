#include "src/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "mpi/comm.hpp"
#include "src/training/data_parallel.hpp"
#include "src/training/precise_batch_norm.hpp"

namespace mrmf {

// Makes all decisions and allocations, so that no step has to.
void Trainer::begin(ModelState& model_state, const Phase& phase, const TrainState& state) {
  compare_ranks(model_state, state, "at the start of " + place_text(phase));
  own_rows_ = 0;
  model_state.optimizer.configure(phase.optimizer);
  clock_.time().io += ctx_.data.require(phase.resolution);
  ctx_.backend.forget();
  const BatchSampler::First order = sampler_.first(phase);
  const Timer timer;
  collective_try(ctx_.team, [&] {
    train_.emplace(ctx_.backend, ctx_.data.train(), phase.resolution, phase.batch);
    validation_.emplace(ctx_.backend, ctx_.data.validation(), phase.resolution, phase.batch);
  });
  clock_.time().io += timer.seconds();
  record_keys_ = sampler_.record_keys(order.training);
  losses_ = ctx_.backend.allocate(std::ssize(order.training.steps) + std::ssize(order.validation.steps));
  objective_.emplace(ctx_.backend, config_, model_state.model.network().output(), *ctx_.data.train().store,
                     phase.resolution);
  if (ctx_.shard_replicas) return make_replicas(model_state, phase, order);
  for (const Index rows : order.rows()) model_state.model.prepare(rows);
}

void Trainer::make_replicas(ModelState& model_state, const Phase& phase, const BatchSampler::First& order) {
  const BatchSampler::Shards shards = sampler_.shards(phase);
  ShardReplicaSettings settings{.network = model_state.network,
                                .loss = config_.loss,
                                .target_channels = objective_->target_channels(),
                                .measures = objective_->measures(),
                                .global_batch_norm = config_.global_batch_norm,
                                .own = shards.own,
                                .all = shards.all};
  settings.network.max_rows = shards.most_rows;
  replicas_ = std::make_unique<ShardReplicas>(ctx_.backend, ctx_.team, model_state.model, settings);
  replicas_->prepare(order.shard_rows());
}

void Trainer::autotune(const Config& config, const Plan& plan, const Phase& phase) {
  if (ctx_.backend.immediate()) return;
  const NetworkSettings settings = network_settings(config, plan, ctx_.data.shape().sample, phase.resolution);
  const Timer looking;
  const Network network(ctx_.backend, settings);
  const Execution execution = plan_execution(ctx_.backend, network, {settings, 0, true});
  for (const Index rows : sampler_.first(phase).rows())
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  clock_.leave_out(looking.seconds());
}

// Announces the order in which streamed samples are read ahead: the rest of the epoch, and validation.
void Trainer::expect(const Epoch& epoch, std::size_t first, int batch) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  train_->expect(left);
  validation_->expect(sampler_.validation(batch));
}

namespace {

constexpr std::size_t kLookEvery = 64;
// Floats in a part of the gradients that is summed beside backward. Large enough that a sum's latency is small compared
// with its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

// The end of the plan's last phase is the end of the run: its model and result are written instead.
bool ends_run(const Phase& phase) { return phase.role == Role::baseline || phase.role == Role::finetune; }

}  // namespace

Trainer::Trainer(const RunContext& ctx, const TrainingConfig& config, double elapsed)
    : ctx_(ctx),
      config_(config),
      sampler_(ctx.data, ctx.team, config.seed),
      all_reduce_(make_all_reduce(ctx.backend, ctx.team)),
      clock_(elapsed) {}

PhaseHistory Trainer::train(ModelState& model_state, const Phase& phase) {
  std::optional<TrainState> state = saved(model_state, phase);
  if (!state) state.emplace(phase);
  if (!state->finished()) begin(model_state, phase, *state);
  while (!state->finished()) {
    const double train_loss = run_epoch(model_state, phase, *state);
    end_epoch(model_state, phase, *state, train_loss);
    if (state->finished()) ctx_.report.phase(state->history.record);
    pause(model_state, phase, *state);
  }
  replicas_.reset();
  return std::move(state->history);
}

double Trainer::run_epoch(ModelState& model_state, const Phase& phase, TrainState& state) {
  const Epoch epoch{state.stop.epochs(), sampler_.training(phase, state.stop.epochs()), state.rate};
  expect(epoch, static_cast<std::size_t>(state.step), phase.batch);
  // Checks every step's loss if that is free; else only now and then, so that the device is not kept waiting.
  const std::size_t steps = epoch.order.steps.size(), look = ctx_.backend.immediate() ? 1 : kLookEvery;
  double shown = std::numeric_limits<double>::quiet_NaN();
  auto looked = static_cast<std::size_t>(state.step);
  for (std::size_t k = looked; k < steps; ++k) {
    train_batch(model_state, phase, epoch, k);
    const bool looking = k + 1 - looked == look || k + 1 == steps;
    if (looking) {
      const double sum = add_losses(phase, epoch, looked, k + 1);
      shown = sum / static_cast<double>(epoch.rows(looked, k + 1));
      state.loss += sum;
      looked = k + 1;
    }
    ctx_.report.progress({&phase, epoch.number, static_cast<Index>(k) + 1, epoch.steps(), shown,
                          epoch.order.global_rows[k], ctx_.team.size()});
    if (looking) {
      state.step = static_cast<Index>(looked);
      pause(model_state, phase, state);
    }
  }
  renew_statistics(model_state, phase, epoch);
  if (ctx_.data.streams() && epoch.number + 1 < phase.stop.epochs)
    train_->expect(sampler_.training(phase, epoch.number + 1));  // while validation goes on
  take_sum_time();
  count_samples(state);
  return state.loss / static_cast<double>(state.samples);
}

void Trainer::take_sum_time() {
  if (all_reduce_ || replicas_) clock_.add(replicas_ ? replicas_->take_time() : all_reduce_->take_time());
}

// When samples are streamed, one rank may meet one that cannot be read; then all must stop.
void Trainer::load(Batches& batches, std::span<const std::int64_t> ids) {
  Timer timer;
  if (!ctx_.data.streams()) {
    batches.load(ids);
    clock_.time().io += timer.lap();
    return;
  }
  collective_try(ctx_.team, [&] {
    batches.load(ids);
    clock_.time().io += timer.lap();
  });
  clock_.time().communication += timer.lap();
}

Step Trainer::training_step(const ModelState& model_state, const Phase& phase, const Epoch& epoch,
                            std::size_t k) const {
  return {.training = true,
          .seed = mix(config_.seed, phase_key(phase)),
          .number = model_state.optimizer.steps(),
          .ids = ids_of(epoch.order, epoch.order.steps[k]),
          .ranks = config_.global_batch_norm ? all_reduce_.get() : nullptr,
          .index = static_cast<Index>(k),
          .loss_weight = 1.0F / static_cast<float>(epoch.order.global_rows[k])};
}

void Trainer::renew_statistics(ModelState& model_state, const Phase& phase, const Epoch& epoch) {
  statistics_rows_ = 0;
  const bool may_end = epoch.number + 1 == phase.stop.epochs || phase.stop.early();
  Model& model = model_state.model;
  PreciseBatchNorm precise(ctx_.backend, model, model_state.network.layers);
  if (config_.precise_batch_norm == 0 || !may_end || !precise.any()) return;
  EpochOrder order = epoch.order;
  order.steps.resize(std::min(order.steps.size(), static_cast<std::size_t>(config_.precise_batch_norm)));
  train_->expect(order);
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    load(*train_, ids_of(order, order.steps[k]));
    const Timer timer;
    const Step now = training_step(model_state, phase, epoch, k);
    precise.before();
    ctx_.backend.begin(now);
    const Feed::Batch batch = train_->batch(now);
    if (replicas_)
      replicas_->renew_state(now, shard_rows(order, k), batch);
    else
      model.forward(now, batch.x);
    precise.after();
    clock_.time().compute += timer.seconds();
  }
  precise.finish();
  statistics_rows_ = epoch.rows(0, order.steps.size());
}

// One optimizer step; keeps its loss, summed over the team's rows.
void Trainer::train_batch(ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t k) {
  const Range rows = epoch.order.steps[k];
  load(*train_, ids_of(epoch.order, rows));
  const Timer timer;
  Model& model = model_state.model;

  Step now = training_step(model_state, phase, epoch, k);
  model_state.optimizer.advance(epoch.rate.at(epoch.number, now.index, epoch.steps()), now);
  ctx_.backend.begin(now);
  ctx_.backend.run(record_keys_[k], [&] {
    const Feed::Batch batch = train_->batch(now);
    if (replicas_) {
      replicas_->train(now, shard_rows(epoch.order, k), batch);
    } else {
      const ConstTensor y = model.forward(now, batch.x);
      objective_->loss().run(now, y, batch.targets, model.output_gradient(rows.count), model.loss());
      model.backward(now, batch.x, {all_reduce_.get(), ctx_.backend.immediate() ? kHostBucket : kDeviceBucket});
    }
    model_state.optimizer.update(now, model.params(), model.grads());
    ctx_.backend.keep(now, model.loss(), losses_.span());
  });
  own_rows_ += std::ssize(now.ids);
  clock_.time().compute += timer.seconds();
}

Trainer::Validation Trainer::validate(ModelState& model_state, int batch_size) {
  Timer timer;
  objective_->begin();
  const Split& split = ctx_.data.validation();
  const EpochOrder order = sampler_.validation(batch_size);
  Model& model = model_state.model;
  Index done = 0;
  for (std::size_t k = 0; k < order.steps.size(); ++k) {
    const Index rows = order.steps[k].count;
    load(*validation_, ids_of(order, order.steps[k]));
    timer.lap();  // load() has counted its own seconds
    if (rows == 0) continue;
    const Step now{.training = false, .ids = ids_of(order, order.steps[k]), .index = done++};
    ctx_.backend.begin(now);
    ctx_.backend.run(static_cast<std::uint64_t>(rows), [&] {
      const Feed::Batch batch = validation_->batch(now);
      if (replicas_) return replicas_->evaluate(now, shard_rows(order, k), batch);
      const ConstTensor y = model.forward(now, batch.x);
      objective_->loss().run(now, y, batch.targets, {}, model.loss());
      ctx_.backend.keep(now, model.loss(), losses_.span());
    });
    if (!replicas_) objective_->add(model, *split.store, now.ids);
    clock_.time().compute += timer.lap();
  }
  double loss = 0;
  if (!replicas_)
    for (const float part : kept_losses(0, static_cast<std::size_t>(done))) loss += part;
  clock_.time().compute += timer.lap();
  loss = replicas_ ? replicas_->take_loss() : ctx_.team.sum(loss);
  if (objective_->measures())
    replicas_ ? replicas_->take_metrics(objective_->sums()) : ctx_.team.sum(objective_->sums());
  clock_.time().communication += timer.lap();
  return {loss / static_cast<double>(split.shape.samples), objective_->metric()};
}

Index Trainer::Epoch::rows(std::size_t first, std::size_t last) const {
  const auto begin = order.global_rows.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(last),
                         Index{0});
}

// The sum over the team's rows of the losses of steps [first, last), once these are done.
double Trainer::add_losses(const Phase& phase, const Epoch& epoch, std::size_t first, std::size_t last) {
  const Timer timer;
  const std::vector<float> losses = kept_losses(first, last);
  clock_.time().compute += timer.seconds();
  double sum = 0;
  for (std::size_t k = first; k < last; ++k) {
    const float loss = losses[k - first];
    if (!std::isfinite(loss))
      throw DivergedError(
          fmt::format("the training loss is {} in {}, epoch {}, step {} of {}; lower the learning rate "
                      "({:g} there) or look for extreme values in the data",
                      std::isnan(loss) ? "nan" : "inf", place_text(phase), epoch.number + 1, k + 1, epoch.steps(),
                      epoch.rate.at(epoch.number, static_cast<Index>(k), epoch.steps())));
    sum += loss;
  }
  return sum;
}

std::vector<float> Trainer::kept_losses(std::size_t first, std::size_t last) {
  std::vector<float> losses(last - first);
  ctx_.backend.read(losses_.span().subspan(first, losses.size()), losses);
  return losses;
}

EpochRecord Trainer::new_record(const ModelState& model_state, const Phase& phase, const TrainState& state) const {
  EpochRecord record;
  record.stage = phase.stage;
  record.role = phase.role;
  record.resolution = phase.resolution;
  record.axes = phase.axes;
  record.epoch = state.stop.epochs() + 1;
  record.samples = state.samples;
  record.learning_rate = state.rate.at(state.stop.epochs(), 0, 1);
  record.batch = phase.batch;
  record.ranks = ctx_.team.size();
  const auto passes = static_cast<double>(3 * record.samples + statistics_rows_ + ctx_.data.validation().shape.samples);
  record.gflop = 1e-9 * passes * model_state.model.network().flop();
  record.statistics_gflop = 1e-9 * static_cast<double>(statistics_rows_) * model_state.model.network().flop();
  return record;
}

void Trainer::end_epoch(ModelState& model_state, const Phase& phase, TrainState& state, double train_loss) {
  EpochRecord epoch = new_record(model_state, phase, state);
  epoch.train_loss = train_loss;
  if (!config_.global_batch_norm && !replicas_) {  // replicas do so in every step
    const Timer timer;
    average_state(ctx_.backend, model_state.model, ctx_.team);
    clock_.time().communication += timer.seconds();
  }
  const Validation validation = validate(model_state, phase.batch);
  epoch.validation_loss = validation.loss;
  epoch.metric = validation.metric;
  if (!std::isfinite(epoch.validation_loss))
    throw DivergedError(
        fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                    "extreme values in the validation data",
                    std::isnan(epoch.validation_loss) ? "nan" : "inf", place_text(phase), epoch.epoch));
  state.rate.epoch_done(epoch.validation_loss);
  const StopReason reason = state.stop.update(epoch.train_loss, epoch.validation_loss,
                                              epoch.metric ? std::optional(epoch.metric->value) : std::nullopt);
  clock_.end_epoch(epoch, ctx_.team);
  epoch.split.averaging = ctx_.team.sum(ctx_.data.take_averaging_seconds()) / ctx_.team.size();
  state.history.record.add(epoch);
  state.history.epochs.push_back(epoch);
  if (reason != StopReason::none) state.history.record.reason = to_string(reason);
  state.step = 0;
  state.loss = 0;
  state.samples = 0;
  ctx_.report.epoch(epoch, state.finished());
}

std::optional<TrainState> Trainer::saved(ModelState& model_state, const Phase& phase) {
  if (!ctx_.saving) return {};
  std::optional<Restored> restored =
      ctx_.saving->checkpoints.load(ctx_.backend, model_state.arrays(), phase, ctx_.team);
  if (!restored) return {};
  model_state.optimizer.configure(phase.optimizer);
  model_state.optimizer.set_ages(restored->ages);
  clock_.go_on_from(restored->state);
  return std::move(restored->state);
}

// Adds the samples that the ranks have trained since the last time.
void Trainer::count_samples(TrainState& state) {
  const Timer timer;
  std::int64_t rows = std::exchange(own_rows_, 0);
  ctx_.team.sum(std::span(&rows, 1));
  state.samples += rows;
  clock_.time().communication += timer.seconds();
}

// In the middle of an epoch, ranks may have their own statistics.
void Trainer::compare_ranks(ModelState& model_state, const TrainState& state, const std::string& place) {
  const Timer timer;
  const bool own_state = !config_.global_batch_norm && !ctx_.shard_replicas && state.step > 0;
  require_same_model(ctx_.backend, model_state.model, own_state ? Compared::parameters : Compared::parameters_and_state,
                     ctx_.team, place);
  if (ctx_.saving) ctx_.saving->times.compared();
  clock_.time().communication += timer.seconds();
}

// Called between two optimizer steps or epochs, when all ranks of the team are at the same place.
void Trainer::pause(ModelState& model_state, const Phase& phase, TrainState& state) {
  if (!ctx_.saving) {
    const int signal = ctx_.stops != nullptr ? ctx_.stops->ask(ctx_.team).signal : 0;
    if (signal != 0) throw Stopped{signal};
    return;
  }
  if (state.finished() && ends_run(phase)) return compare_ranks(model_state, state, position_text(phase, state));
  SaveTimes& times = ctx_.saving->times;
  const Timer asking;
  const SaveTimes::Wish wish = times.ask(ctx_.team);
  clock_.time().communication += asking.seconds();
  const bool epoch_due = state.step == 0 && times.after_epoch(state.stop.epochs());
  const bool saving = wish.save || epoch_due || state.finished();
  if (wish.compare || saving)
    compare_ranks(model_state, state, position_text(phase, state));  // so that no good file is replaced by a bad one
  if (!saving) return;
  take_sum_time();
  count_samples(state);
  clock_.save(state, ctx_.team);
  ctx_.saving->checkpoints.save(ctx_.backend, model_state.arrays(), phase, state, ctx_.team);
  times.saved();
  if (wish.signal == 0) return;
  ctx_.report.log(fmt::format("stopped on {} {}; run the same command again to continue", signal_name(wish.signal),
                              position_text(phase, state)));
  throw Stopped{wish.signal};
}

}  // namespace mrmf
