#include "src/training/training_loop.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "src/training/run_context.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kReadLossesEvery = 64;  // steps, on a device

// Ranks compare their parameters first, so that no good file is replaced by a bad one.
void save(PhaseContext& context, TrainState& state) {
  const RunContext& ctx = context.session.ctx;
  compare_ranks(context.session, context.model_state, state, position_text(context.phase, state));
  context.take_counts(state);
  context.complete_moments();
  context.session.clock.save(state, ctx.team);
  ctx.saving->checkpoints.save(ctx.backend, context.model_state.arrays(), context.phase, state, ctx.team);
  ctx.saving->times.saved();
  if (ctx.meetings != nullptr) ctx.meetings->saved();
}

// Called between two optimizer steps or epochs, when all ranks of the team are at the same position.
void checkpoint_or_stop(PhaseContext& context, TrainState& state) {
  const RunContext& ctx = context.session.ctx;
  if (!ctx.saving) {
    const int signal = ctx.stops != nullptr ? ctx.stops->ask(ctx.team).signal : 0;
    if (signal != 0) throw Stopped{signal};
    return;
  }
  SavePolicy& times = ctx.saving->times;
  EpochClock& clock = context.session.clock;
  const Timer asking;
  const auto asked = times.ask(ctx.team);
  clock.time().communication += asking.seconds();
  const bool epoch_due = state.step == 0 && times.after_epoch(state.stop.epochs());
  const bool saving = asked.save || epoch_due || state.finished();
  if (saving)
    save(context, state);
  else if (asked.compare)
    compare_ranks(context.session, context.model_state, state, position_text(context.phase, state));
  if (!saving) return;
  if (asked.signal == 0 || (state.finished() && context.phase.last())) return;  // then there is nothing left to stop
  ctx.log.line(fmt::format("stopped on {} {}; run the same command again to continue", signal_name(asked.signal),
                           position_text(context.phase, state)));
  throw Stopped{asked.signal};
}

// Steps of the phase after which the next meeting is; none: there are no more.
std::optional<Index> next_meeting(const PhaseContext& context, const TrainState& state) {
  const Meetings* const meetings = context.session.ctx.meetings;
  return meetings != nullptr && context.phase.last() ? meetings->next(state) : std::nullopt;
}

// Whether it is after so many steps of the epoch.
bool meets_after(const PhaseContext& context, const EpochSteps& epoch, const TrainState& state, std::size_t steps) {
  const std::optional<Index> next = next_meeting(context, state);
  return next &&
         *next <= static_cast<Index>(epoch.number) * static_cast<Index>(epoch.count()) + static_cast<Index>(steps);
}

void meet_if_due(PhaseContext& context, const EpochSteps& epoch, TrainState& state) {
  if (meets_after(context, epoch, state, static_cast<std::size_t>(state.step))) {
    context.session.ctx.meetings->meet(context, state, [&] { save(context, state); });
    context.model().copy_weights(Copied::shared);
  }
  context.meets_again = next_meeting(context, state).has_value();
}

// Steps of the epoch from where the state stands. Checks every step's loss if that is free; else only now and then, so
// that the device is not kept waiting.
void train_epoch(PhaseContext& context, const EpochSteps& epoch, TrainState& state) {
  auto read = static_cast<std::size_t>(state.step);  // steps whose losses the host knows
  context.read_ahead(epoch, read);
  const std::size_t steps = epoch.count(), every = context.backend().synchronous() ? 1 : kReadLossesEvery;
  double shown = std::numeric_limits<double>::quiet_NaN();
  meet_if_due(context, epoch, state);
  for (std::size_t k = read; k < steps; ++k) {
    training_step(context, epoch, k, state);
    const bool reading = k + 1 - read == every || k + 1 == steps || meets_after(context, epoch, state, k + 1);
    if (reading) {
      const double sum = sum_losses(context, epoch, read, k + 1);
      shown = sum / static_cast<double>(epoch.rows(read, k + 1));
      state.loss += sum;
      read = k + 1;
    }
    context.session.ctx.log.progress({&context.phase, epoch.number, static_cast<Index>(k) + 1,
                                      static_cast<Index>(steps), shown, epoch.order.global_rows[k],
                                      context.session.ctx.team.size()});
    if (reading) {
      state.step = static_cast<Index>(read);
      checkpoint_or_stop(context, state);
      meet_if_due(context, epoch, state);
    }
  }
}

void transfer_best(const RunContext& ctx, ModelState& model_state, const Phase& phase, const TrainState& state) {
  if (model_state.best.empty())
    return ctx.log.line(phase_text(phase) + " transfers the model of its last epoch: no validation tells the best");
  model_state.swap_best(ctx.backend);
  model_state.best = {};
  ctx.log.line(fmt::format("{} transfers the model of its best epoch, {} of {}", phase_text(phase), state.best.epoch,
                           state.stop.epochs()));
}

}  // namespace

TrainingLoop::TrainingLoop(const RunContext& ctx, const TrainingConfig& config, double elapsed)
    : session_{ctx, config, BatchSampler(ctx.data, ctx.team, config), make_all_reduce(ctx.backend, ctx.team),
               EpochClock(elapsed)} {}

PhaseHistory TrainingLoop::train(ModelState& model_state, const Phase& phase, const ProbeFunction& probe_model,
                                 std::optional<TrainState> begun) {
  TrainState state = begun ? std::move(*begun) : restore_or_begin(model_state, phase);
  if (!state.finished()) {
    PhaseContext context = begin_phase(session_, model_state, phase, state);
    context.dropout_factor = static_cast<float>(state.tournament.dropout);
    warn_of_no_score(context);
    while (!state.finished()) {
      const EpochSteps epoch{state.stop.epochs(), session_.sampler.training(phase, state.stop.epochs()), state.rate};
      train_epoch(context, epoch, state);

      const bool may_end = epoch.number + 1 == phase.stop.epochs || phase.stop.ends_by_loss();
      const Index recalibrated =
          recalibrate_batch_norms(context, epoch, may_end ? session_.config.precise_batch_norm : 0);
      context.read_ahead(epoch.number + 1);
      context.take_counts(state);
      const Validation validation = validate(context);

      EpochRecord record = make_epoch_record(context, state, recalibrated, validation);
      if (probe_model && state.stop.probe_due()) probe_after_epoch(context, state, record, probe_model);
      end_epoch(context, state, record);
      if (state.finished()) context.end_momenta();
      checkpoint_or_stop(context, state);
    }
    context.complete_moments();
  }
  if (phase.transfers_best) transfer_best(session_.ctx, model_state, phase, state);
  return std::move(state.history);
}

TrainState TrainingLoop::restore_or_begin(ModelState& model_state, const Phase& phase) {
  const RunContext& ctx = session_.ctx;
  std::optional<Restored> restored;
  prepare_workers(session_, model_state, phase);
  if (ctx.saving) restored = ctx.saving->checkpoints.load(ctx.backend, model_state.arrays(), phase, ctx.team);
  if (!restored) {
    model_state.best = {};
    return TrainState(phase);
  }
  model_state.optimizer.configure(optimizer_at(phase, restored->state));
  model_state.optimizer.set_ages(restored->ages);
  session_.clock.resume_from(restored->state);
  if (restored->saved_workers > 0)
    ctx.log.line(fmt::format("{}: {} saved, and now there {} {}: each begins with their mean", phase_text(phase),
                             restored->saved_workers == 1
                                 ? "the momentum of one rank was"
                                 : fmt::format("the momenta of {} ranks or shards were", restored->saved_workers),
                             model_state.workers.count().all == 1 ? "is" : "are", model_state.workers.count().all));
  return std::move(restored->state);
}

void TrainingLoop::autotune(const Config& config, const Plan& plan, const Phase& phase) {
  const RunContext& ctx = session_.ctx;
  if (ctx.backend.synchronous()) return;
  const NetworkSettings settings = network_settings(config, plan, ctx.data.shape().sample, phase.resolution);
  const Timer searching;
  ModelSettings own{settings, 0, true};
  if (SampleGrid* grid = ctx.grid(phase.resolution)) own.grid = grid->grid(), own.block = grid->block();
  const std::unique_ptr<Backend> reference_backend = own.grid.ranks() > 1 ? make_reference_backend() : nullptr;
  const Network network(reference_backend ? *reference_backend : ctx.backend,
                        settings);  // whole samples may not fit a device
  const Execution execution = build_execution(ctx.backend, network, own);
  for (const Index rows : rows_at_once(config.data, phase))
    for (const Unit& unit : execution.units) unit.layer->prepare(rows);
  session_.clock.leave_out(searching.seconds());
}

// The phase's data may not be loaded yet: with grids they are cut anew where it begins.
std::set<Index> TrainingLoop::rows_at_once(const DataConfig& data, const Phase& phase) const {
  const RunContext& ctx = session_.ctx;
  const BatchSampler& sampler = session_.sampler;
  if (ctx.grids == nullptr) return sampler.first(phase).rows();
  const Comm& sharing = ctx.data_parallel_team(phase.resolution);
  const auto parts = [&](const Split& split, const auto& batch_of) {
    OrderSettings order = order_settings(data, split.shape.samples, sharing.size(), sharing.rank());
    if (split.boxes) order.repeats = boxes_of_each(data, split.shape.sample, phase.resolution);
    order.batch = batch_of(order);
    return sampler.in_micro_batches(epoch_order(order, session_.config.seed, phase_key(phase), 0));
  };
  BatchSampler::First first;
  first.micro_batches = parts(ctx.data.train(), [&](const OrderSettings&) { return Index{phase.batch}; });
  first.validation =
      parts(ctx.data.validation(), [&](const OrderSettings& order) { return validation_batch(order, phase.batch); });
  return first.rows();
}

}  // namespace mrmf
