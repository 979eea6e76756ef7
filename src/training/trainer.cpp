#include "src/training/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "mpi/comm.hpp"
#include "src/training/data_parallel.hpp"

namespace mrmf {

// Makes all decisions and allocations, so that no step has to.
void Trainer::begin(ModelState& model_state, const Phase& phase, const TrainState& state) {
  grid_ = ctx_.grid(phase.resolution);
  compare_ranks(model_state, state, "at the start of " + place_text(phase));
  own_rows_ = 0;
  model_state.optimizer.configure(phase.optimizer);
  clock_.time().io += ctx_.require_data(phase.resolution);
  ctx_.backend.forget();
  const BatchSampler::First order = sampler_.first(phase);
  const Timer timer;
  collective_try(ctx_.team, [&] {
    const Index rows = config_.rows_at_once(phase.batch);
    const Execution& execution = model_state.model.execution();
    const SampleBlock block{execution.input_box, execution.output_box, model_state.model.network().output().spatial};
    const SampleBlock* const own = grid_ != nullptr ? &block : nullptr;
    train_.emplace(ctx_.backend, ctx_.data.train(), phase.resolution, rows, own);
    validation_.emplace(ctx_.backend, ctx_.data.validation(), phase.resolution, rows, own);
  });
  clock_.time().io += timer.seconds();
  record_keys_ = sampler_.record_keys(order.parts);
  losses_ = ctx_.backend.allocate(std::ssize(order.training.steps) + std::ssize(order.validation.steps));
  objective_.emplace(ctx_.backend, config_, model_state.model, *ctx_.data.train().store, phase.resolution);
  Model& model = model_state.model;
  clip_ = config_.clip_norm > 0 ? ctx_.backend.clip(std::ssize(model.grads())) : nullptr;
  summed_ = config_.accumulate > 1 ? ctx_.backend.allocate(std::ssize(model.reduced())) : Arena();
  shard_update(model_state);
  if (ctx_.shard_replicas) return make_replicas(model_state, phase, order);
  for (const Index rows : order.rows()) model.prepare(rows);
}

// Where gradients are clipped, all must be summed before the first parameter is updated.
void Trainer::shard_update(ModelState& model_state) {
  sharded_.reset();
  if (all_reduce_ == nullptr || !all_reduce_->updates() || clip_ || ctx_.shard_replicas) return;
  sharded_.emplace(model_state, ShardedUpdate::Ranks{*all_reduce_, ctx_.team, of_samples()});
}

void Trainer::complete_moments() {
  if (!sharded_) return;
  const Timer timer;
  sharded_->complete();
  clock_.time().communication += timer.seconds();
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
  ModelSettings own{settings, 0, true};
  if (SampleGrid* grid = ctx_.grid(phase.resolution)) own.grid = grid->grid(), own.block = grid->block();
  const std::unique_ptr<Backend> layout = own.grid.ranks() > 1 ? make_reference_backend() : nullptr;
  const Network network(layout ? *layout : ctx_.backend, settings);  // whole samples may not fit a device
  const Execution execution = plan_execution(ctx_.backend, network, own);
  for (const Index rows : rows_at_once(config.data, phase))
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  clock_.leave_out(looking.seconds());
}

// Of a phase whose data may not be loaded yet: with grids they are cut anew where the phase begins.
std::set<Index> Trainer::rows_at_once(const DataConfig& data, const Phase& phase) const {
  if (ctx_.grids == nullptr) return sampler_.first(phase).rows();
  SampleGrid* const grid = ctx_.grid(phase.resolution);
  const Comm& sharing = grid != nullptr ? grid->same_block() : ctx_.team;
  const auto parts = [&](const Split& split, const auto& batch_of) {
    OrderSettings order = order_settings(data, split.shape.samples, sharing.size(), sharing.rank());
    order.batch = batch_of(order);
    return sampler_.in_parts(epoch_order(order, config_.seed, phase_key(phase), 0));
  };
  BatchSampler::First first;
  first.parts = parts(ctx_.data.train(), [&](const OrderSettings&) { return Index{phase.batch}; });
  first.validation =
      parts(ctx_.data.validation(), [&](const OrderSettings& order) { return validation_batch(order, phase.batch); });
  return first.rows();
}

// Announces the order in which streamed samples are read ahead: the rest of the epoch, and validation.
void Trainer::expect(const Epoch& epoch, std::size_t first, int batch) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  train_->expect(sampler_.in_parts(left));
  validation_->expect(sampler_.validation(batch));
}

namespace {

constexpr std::size_t kLookEvery = 64;
// Floats in a part of the gradients that is summed beside backward. Large enough that a sum's latency is small compared
// with its transfer, between devices and between hosts.
constexpr Index kDeviceBucket = Index{1} << 21, kHostBucket = Index{1} << 18;

}  // namespace

Trainer::Trainer(const RunContext& ctx, const TrainingConfig& config, double elapsed)
    : ctx_(ctx),
      config_(config),
      sampler_(ctx.data, ctx.team, config),
      all_reduce_(make_all_reduce(ctx.backend, ctx.team)),
      clock_(elapsed) {}

PhaseHistory Trainer::train(ModelState& model_state, const Phase& phase, LookAt look_at) {
  std::optional<TrainState> state = saved(model_state, phase);
  if (!state) {
    state.emplace(phase);
    model_state.best = {};
  }
  look_at_ = std::move(look_at);
  return finish(model_state, phase, *state);
}

PhaseHistory Trainer::go_on(ModelState& model_state, const Phase& phase, TrainState begun) {
  look_at_ = {};
  return finish(model_state, phase, begun);
}

PhaseHistory Trainer::finish(ModelState& model_state, const Phase& phase, TrainState& state) {
  if (!state.finished()) {
    begin(model_state, phase, state);
    warn_of_no_score(phase);
  }
  while (!state.finished()) {
    const double train_loss = run_epoch(model_state, phase, state);
    end_epoch(model_state, phase, state, train_loss);
    if (state.finished()) ctx_.report.phase(state.history.record);
    pause(model_state, phase, state);
  }
  replicas_.reset();
  complete_moments();
  sharded_.reset();
  look_at_ = {};
  if (phase.hands_over_best) hand_over_best(model_state, phase, state);
  return std::move(state.history);
}

void Trainer::hand_over_best(ModelState& model_state, const Phase& phase, const TrainState& state) {
  if (model_state.best.empty())
    return ctx_.report.log(place_text(phase) + " hands over the model of its last epoch: no validation tells the best");
  model_state.swap_best(ctx_.backend);
  model_state.best = {};
  ctx_.report.log(fmt::format("{} hands over the model of its best epoch, {} of {}", place_text(phase),
                              state.best.epoch, state.stop.epochs()));
}

double Trainer::run_epoch(ModelState& model_state, const Phase& phase, TrainState& state) {
  const Epoch epoch{state.stop.epochs(), sampler_.training(phase, state.stop.epochs()), state.rate};
  expect(epoch, static_cast<std::size_t>(state.step), phase.batch);
  // Checks every step's loss if that is free; else only now and then, so that the device is not kept waiting.
  const std::size_t steps = epoch.order.steps.size(), look = ctx_.backend.immediate() ? 1 : kLookEvery;
  double shown = std::numeric_limits<double>::quiet_NaN();
  auto looked = static_cast<std::size_t>(state.step);
  for (std::size_t k = looked; k < steps; ++k) {
    for (int part = 0; part < config_.accumulate; ++part) train_batch(model_state, phase, epoch, k, part);
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
    train_->expect(sampler_.in_parts(sampler_.training(phase, epoch.number + 1)));  // while validation goes on
  take_sum_time();
  count_samples(state);
  return state.loss / static_cast<double>(ctx_.data.train().labelled);  // an epoch takes every sample once
}

void Trainer::take_sum_time() {
  if (all_reduce_ || replicas_) clock_.add(replicas_ ? replicas_->take_time() : all_reduce_->take_time());
  if (grid_ != nullptr) clock_.add(grid_->take_time());
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

Step Trainer::training_step(const ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t k,
                            int part) const {
  Step step{.training = true,
            .seed = mix(config_.seed, phase_key(phase)),
            .number = model_state.optimizer.steps(),
            .ids = ids_of(epoch.order, part_of(epoch.order.steps[k], part, config_.accumulate)),
            .ranks = config_.global_batch_norm ? all_reduce_.get() : nullptr,
            .index = static_cast<Index>(k),
            .loss_weight = 1.0F / static_cast<float>(epoch.order.global_rows[k])};
  add_grid(step, model_state.model);
  return step;
}

void Trainer::add_grid(Step& step, const Model& model) const {
  if (grid_ == nullptr) return;
  step.blocks = &grid_->messages();
  step.of_sample = grid_->over_group();
  step.share = model.execution().share;
  if (step.training) step.of_whole = grid_->over_same_block();
}

// Adds a part's gradients and loss to those of the parts before it, and the step's to those of the other ranks.
// Backward overwrites gradients, so the sum is kept outside of the model until the last part.
void Trainer::sum_parts(Model& model, const Step& step, int part) {
  const bool last = part + 1 == config_.accumulate;
  if (part == 0) return ctx_.backend.swap(model.reduced(), summed_.span());
  if (!last) return ctx_.backend.accumulate(model.reduced(), summed_.span());
  ctx_.backend.accumulate(summed_.span(), model.reduced());
  model.sum(gradient_sums(step));
}

GradientSums Trainer::gradient_sums(const Step& step) {
  return {all_reduce_.get(), grid_ != nullptr ? grid_->over_same_block() : nullptr,
          ctx_.backend.immediate() ? kHostBucket : kDeviceBucket, sharded_ ? sharded_->of(step) : nullptr};
}

// Of weights that are cut, each rank of a group counts its own.
void Trainer::clip(Model& model) {
  const auto most = static_cast<float>(config_.clip_norm);
  if (model.layout().cuts().empty()) return clip_->run(model.grads(), most);
  std::vector<Span> counted;
  for (const Place& place : model.layout().counted()) counted.push_back(mrmf::part(model.grads(), place));
  clip_->run_over(model.grads(), most, counted, *grid_->over_group());
}

// One part of an optimizer step. The last one updates the parameters and keeps the loss, summed over the team's rows.
void Trainer::train_batch(ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t k, int part) {
  const int parts = config_.accumulate;
  const bool last = part + 1 == parts;
  Step now = training_step(model_state, phase, epoch, k, part);
  load(*train_, now.ids);
  const Timer timer;
  Model& model = model_state.model;

  if (last) model_state.optimizer.advance(epoch.rate.at(epoch.number, now.index, epoch.steps()), now);
  ctx_.backend.begin(now);
  ctx_.backend.run(record_keys_[k * static_cast<std::size_t>(parts) + static_cast<std::size_t>(part)], [&] {
    const Feed::Batch batch = train_->batch(now);
    if (replicas_) {
      replicas_->train(now, shard_rows(epoch.order, k), batch);
    } else {
      const ConstTensor y = model.forward(now, batch.x);
      objective_->run(now, y, batch.targets, model.output_gradient(std::ssize(now.ids)), model.loss());
      model.backward(now, batch.x, parts == 1 ? gradient_sums(now) : GradientSums{});
      if (parts > 1) sum_parts(model, now, part);
    }
    if (!last) return;
    if (clip_) clip(model);
    if (!sharded_) model_state.optimizer.update(now, model.params(), model.grads());
    ctx_.backend.keep(now, model.loss(), losses_.span());
  });
  own_rows_ += std::ssize(now.ids);
  clock_.time().compute += timer.seconds();
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
  of_samples().sum(std::span(&rows, 1));
  state.samples += rows;
  clock_.time().communication += timer.seconds();
}

// In the middle of an epoch, ranks may have their own statistics.
void Trainer::compare_ranks(ModelState& model_state, const TrainState& state, const std::string& place) {
  const Timer timer;
  const bool own_state = !config_.global_batch_norm && !ctx_.shard_replicas && state.step > 0;
  require_same_model(ctx_.backend, model_state.model, own_state ? Compared::parameters : Compared::parameters_and_state,
                     {ctx_.team, of_samples()}, place);
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
  complete_moments();
  count_samples(state);
  clock_.save(state, ctx_.team);
  ctx_.saving->checkpoints.save(ctx_.backend, model_state.arrays(), phase, state, ctx_.team);
  times.saved();
  if (wish.signal == 0 || (state.finished() && phase.last())) return;  // then there is nothing left to stop
  ctx_.report.log(fmt::format("stopped on {} {}; run the same command again to continue", signal_name(wish.signal),
                              position_text(phase, state)));
  throw Stopped{wish.signal};
}

}  // namespace mrmf
