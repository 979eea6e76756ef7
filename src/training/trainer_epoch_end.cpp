// The end of an epoch: new statistics for batch norms, validation, records, and what follows from them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mpi/comm.hpp"
#include "src/training/data_parallel.hpp"
#include "src/training/label_spread.hpp"
#include "src/training/precise_batch_norm.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {

void Trainer::renew_statistics(ModelState& model_state, const Phase& phase, const Epoch& epoch) {
  statistics_rows_ = 0;
  if (epoch.number + 1 == phase.stop.epochs || phase.stop.ends_by_loss())
    take_statistics(model_state, phase, epoch, config_.precise_batch_norm);
}

void Trainer::take_statistics(ModelState& model_state, const Phase& phase, const Epoch& epoch, int batches) {
  statistics_rows_ = 0;
  Model& model = model_state.model;
  PreciseBatchNorm precise(ctx_.backend, model, model_state.network.layers);
  if (batches == 0 || !precise.any()) return;
  EpochOrder order = epoch.order;
  order.steps.resize(std::min(order.steps.size(), static_cast<std::size_t>(batches)));
  train_->expect(sampler_.in_parts(order));
  const auto parts = static_cast<std::size_t>(config_.accumulate);
  for (std::size_t i = 0; i < order.steps.size() * parts; ++i) {
    const std::size_t k = i / parts;
    const Step now = training_step(model_state, phase, epoch, k, static_cast<int>(i % parts));
    load(*train_, now.ids);
    const Timer timer;
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
    Step now{.training = false, .ids = ids_of(order, order.steps[k]), .index = done++};
    add_grid(now, model);
    ctx_.backend.begin(now);
    ctx_.backend.run(static_cast<std::uint64_t>(rows), [&] {
      const Feed::Batch batch = validation_->batch(now);
      if (replicas_) return replicas_->evaluate(now, shard_rows(order, k), batch);
      const ConstTensor y = model.forward(now, batch.x);
      objective_->run(now, y, batch.targets, {}, model.loss());
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
  if (split.labelled == 0) return {{}, objective_->metric()};
  return {loss / static_cast<double>(split.labelled), objective_->metric()};
}

EpochRecord Trainer::new_record(const ModelState& model_state, const Phase& phase, const TrainState& state) const {
  EpochRecord record;
  record.stage = phase.stage;
  record.role = phase.role;
  record.resolution = phase.resolution;
  if (grid_ != nullptr) record.grid = phase.grid;
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

// What a look that does not end the phase has trained is lost; else it is the next phase's beginning, and counts there.
void Trainer::look(ModelState& model_state, TrainState& state, EpochRecord& epoch) {
  complete_moments();
  const Probe probe = look_at_(model_state);
  epoch.gflop += probe.look_gflop;
  if (!std::isfinite(probe.halfway) || !std::isfinite(probe.end)) {
    epoch.gflop += probe.training_gflop;
    return ctx_.report.log(
        fmt::format("look after coarse epoch {}: no finite validation loss at full resolution, so "
                    "it tells nothing",
                    epoch.epoch));
  }
  const Look look{epoch.epoch, state.history.record.gflop + epoch.gflop, probe.halfway, probe.end, probe.second_gflop};
  state.stop.look(look);
  if (!pays_no_more(state.stop.memory().looks)) epoch.gflop += probe.training_gflop;
  ctx_.report.log(
      fmt::format("look after coarse epoch {}: at full resolution {:.5f}, then {:.5f} after {:.3g} GFLOP more",
                  look.epoch, look.halfway, look.end, look.probe_gflop));
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
  epoch.validation_loss = validation.loss.value_or(kNoScore);
  epoch.metric = validation.metric;
  if (validation.loss && !std::isfinite(*validation.loss))
    throw DivergedError(
        fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                    "extreme values in the validation data",
                    std::isnan(epoch.validation_loss) ? "nan" : "inf", place_text(phase), epoch.epoch));
  state.rate.epoch_done(epoch.validation_loss);
  const auto metric = epoch.metric ? std::optional(epoch.metric->value) : std::nullopt;
  if (phase.keeps_best() &&
      state.best.update(epoch.epoch, monitored(phase.stop.monitor, epoch.validation_loss, metric)))
    model_state.keep_best(ctx_.backend);
  if (look_at_ && state.stop.look_due()) look(model_state, state, epoch);
  const StopReason reason = state.stop.update(epoch.train_loss, epoch.validation_loss, metric);
  clock_.end_epoch(epoch, ctx_.team);
  epoch.split.averaging = ctx_.team.sum(ctx_.data.take_averaging_seconds()) / ctx_.team.size();
  state.history.record.add(epoch);
  state.history.record.best_epoch = state.best.epoch;
  state.history.epochs.push_back(epoch);
  if (reason != StopReason::none) state.history.record.reason = to_string(reason);
  state.step = 0;
  state.loss = 0;
  state.samples = 0;
  ctx_.report.epoch(epoch, state.finished());
  if (epoch.epoch > 1) return;
  warn_of_spread(phase, epoch);
  warn_of_no_metric(phase, epoch);
}

void Trainer::warn_of_no_score(const Phase& phase) const {
  if (ctx_.data.validation().labelled > 0) return;
  ctx_.report.log(
      fmt::format("warning: {}: {} has no validation loss, and no target, early stopping, best epoch or "
                  "plateau of the learning rate",
                  no_label_text(ctx_.data.config().data.validation, config_, "validation"), place_text(phase)));
}

void Trainer::warn_of_no_metric(const Phase& phase, const EpochRecord& epoch) const {
  if (!epoch.metric || std::isfinite(epoch.metric->value) || ctx_.data.validation().labelled == 0) return;
  ctx_.report.log(fmt::format("warning: {} has no validation {}: {}", place_text(phase),
                              to_string(epoch.metric->metric),
                              epoch.metric->metric == Metric::r2
                                  ? "the validation labels of every output are all the same, so there is no spread to "
                                    "explain"
                                  : "no class occurs"));
}

// Of random samples: the first of the epoch's order, fewer where labels are large. Its time is no part of training.
void Trainer::warn_of_spread(const Phase& phase, const EpochRecord& epoch) {
  if (!is_mse_alone(config_.loss)) return;
  const Timer timer;
  const SampleStore& store = *ctx_.data.train().store;
  const EpochOrder order = sampler_.training(phase, 0);
  const auto rows = static_cast<std::size_t>(spread_samples(store.target(phase.resolution).per_sample()));
  const double variance =
      label_variance(store, phase.resolution, std::span(order.ids).first(std::min(order.ids.size(), rows)),
                     config_.rows_at_once(phase.batch), ctx_.team);
  clock_.leave_out(timer.seconds());
  const std::string warning = spread_warning(config_.loss, epoch, place_text(phase), variance);
  if (!warning.empty()) ctx_.report.log("warning: " + warning);
}

}  // namespace mrmf
