// What follows an epoch: a probe of what a coarse model is worth, the epoch's record, its warnings, the best model, the
// learning rate, and whether the phase ends. Declared in training_loop.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/errors.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

// Steps of the epoch from where the probe stands to `last`, then the validation loss.
double probe_half(PhaseContext& context, const EpochSteps& epoch, std::size_t last, ProbeResult& probe) {
  TrainState& state = probe.state;
  const auto first = static_cast<std::size_t>(state.step);
  context.read_ahead(epoch, first);
  for (std::size_t k = first; k < last; ++k) training_step(context, epoch, k, state);
  state.loss += sum_losses(context, epoch, first, last);
  state.step = static_cast<Index>(last);
  const Index recalibrated =
      recalibrate_batch_norms(context, epoch, std::min(context.session.config.precise_batch_norm, kProbeBatches));
  const auto rows = static_cast<double>(recalibrated + scored_rows(context, context.session.ctx.data.validation()));
  probe.validation_gflop += 1e-9 * rows * context.model().network().flop();
  return validate(context).loss.value_or(kNoScore);
}

}  // namespace

ProbeResult probe_phase(TrainingSession& session, ModelState& model_state, const Phase& phase, double share) {
  ProbeResult probe{.state = TrainState(phase)};
  model_state.best = {};
  PhaseContext context = begin_phase(session, model_state, phase, probe.state);
  const EpochSteps epoch{0, session.sampler.training(phase, 0), probe.state.rate};
  MRMF_CHECK(epoch.count() >= 2, "a probe has two halves");
  const auto half = static_cast<std::size_t>(probe_half_steps(share, static_cast<int>(epoch.count())));
  const auto gflop = [&](std::size_t first, std::size_t last) {
    return 3e-9 * static_cast<double>(epoch.rows(first, last)) * model_state.model.network().flop();
  };
  probe.halfway = probe_half(context, epoch, half, probe);
  probe.end = probe_half(context, epoch, 2 * half, probe);
  probe.second_gflop = gflop(half, 2 * half);
  probe.training_gflop = gflop(0, 2 * half);
  context.take_counts(probe.state);
  context.complete_moments();
  return probe;
}

// What a probe that does not end the phase has trained is lost; else it is the next phase's beginning, and counts
// there.
void probe_after_epoch(PhaseContext& context, TrainState& state, EpochRecord& record,
                       const ProbeFunction& probe_model) {
  RunLog& log = context.session.ctx.log;
  context.complete_moments();
  const ProbeResult probe = probe_model(context.model_state);
  record.gflop += probe.validation_gflop;
  if (!std::isfinite(probe.halfway) || !std::isfinite(probe.end)) {
    record.gflop += probe.training_gflop;
    return log.line(
        fmt::format("probe after coarse epoch {}: no finite validation loss at full resolution, so "
                    "it tells nothing",
                    record.epoch));
  }
  const ProbeRecord outcome{record.epoch, state.history.record.gflop + record.gflop, probe.halfway, probe.end,
                            probe.second_gflop};
  state.stop.add_probe(outcome);
  if (!pays_no_more(state.stop.state().probes)) record.gflop += probe.training_gflop;
  log.line(fmt::format("probe after coarse epoch {}: at full resolution {}, then {} after {:.3g} GFLOP more",
                       outcome.epoch, score_text(outcome.halfway), score_text(outcome.end), outcome.probe_gflop));
}

namespace {

// Calls visit(channel, value) for every label of these samples.
template <class Visit>
void for_each_label(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids, Index batch,
                    const Visit& visit) {
  const Shape target = store.target(resolution);
  std::vector<float> values;
  while (!ids.empty()) {
    const auto rows = std::min(ids.size(), static_cast<std::size_t>(batch));
    values.resize(rows * static_cast<std::size_t>(target.per_sample()));
    store.gather_labels(resolution, ids.first(rows), values);
    for (std::size_t i = 0; i < values.size(); ++i)
      visit(i % static_cast<std::size_t>(target.channels), double{values[i]});
    ids = ids.subspan(rows);
  }
}

}  // namespace

Index spread_samples(Index per_sample) {
  constexpr Index samples = 4096, numbers = 1'000'000;
  return std::clamp<Index>(numbers / std::max<Index>(per_sample, 1), 1, samples);
}

// In two passes: around a mean that is far from zero, a difference of squares would have no digits left.
double label_variance(const SampleStore& store, const Extent& resolution, std::span<const std::int64_t> ids,
                      Index batch, Comm& team) {
  const auto channels = static_cast<std::size_t>(store.target(resolution).channels);
  std::vector<double> sums(2 * channels), squares(channels);
  const std::span<double> means = std::span(sums).first(channels), counts = std::span(sums).last(channels);
  for_each_label(store, resolution, ids, batch,
                 [&](std::size_t channel, double label) { means[channel] += label, counts[channel] += 1; });
  team.sum(sums);
  for (std::size_t c = 0; c < channels; ++c) means[c] /= std::max(counts[c], 1.0);
  for_each_label(store, resolution, ids, batch, [&](std::size_t channel, double label) {
    squares[channel] += (label - means[channel]) * (label - means[channel]);
  });
  team.sum(squares);
  constexpr double same = 3e-15;  // share of the squared mean: labels that float32 does not tell apart
  double variance = 0;
  for (std::size_t c = 0; c < channels; ++c)
    if (const double own = squares[c] / std::max(counts[c], 1.0); own > same * means[c] * means[c]) variance += own;
  return variance / static_cast<double>(channels);
}

bool is_mse_alone(const LossSettings& loss) {
  const float weight = loss.weight(LossKind::mse);
  LossSettings alone = LossSettings::single(LossKind::mse);
  alone.weights[static_cast<std::size_t>(LossKind::mse)] = weight;
  return weight > 0 && loss.weights == alone.weights;
}

std::string spread_warning(const LossSettings& loss, const EpochRecord& epoch, const std::string& position,
                           double variance) {
  constexpr double kFar = 1e3;
  if (!is_mse_alone(loss) || !(variance > 0)) return "";
  const float weight = loss.weight(LossKind::mse);
  const double far = kFar * weight * variance;
  if (!(epoch.train_loss > far) || !(epoch.validation_loss > far)) return "";
  return fmt::format(
      "after epoch {} of {} the losses (training {:.3g}, validation {:.3g}) are more than {:g} times the variance of "
      "the training labels ({:.3g}), which a model that always answers their mean would have; set "
      "data.normalise.labels = \"mean_std\", or lower the learning rate if they are normalised",
      epoch.epoch, position, epoch.train_loss, epoch.validation_loss, kFar, weight * variance);
}

namespace {

void warn_of_no_metric(const PhaseContext& context, const EpochRecord& record) {
  const RunContext& ctx = context.session.ctx;
  if (!record.metric || std::isfinite(record.metric->value) || ctx.data.validation().labelled == 0) return;
  ctx.log.line(fmt::format("warning: {} has no validation {}: {}", phase_text(context.phase),
                           to_string(record.metric->metric),
                           context.session.config.loss.task() == Task::regression
                               ? "the validation labels of every output are all the same, so there is no spread to "
                                 "explain"
                           : record.metric->metric.kind == MetricKind::auc ? "it needs labels of a class and of another"
                                                                           : "no class occurs"));
}

// Looks at random samples: the first of the epoch's order, fewer where labels are large. Its time is no part of
// training.
void warn_of_spread(PhaseContext& context, const EpochRecord& record) {
  const RunContext& ctx = context.session.ctx;
  const TrainingConfig& config = context.session.config;
  if (!is_mse_alone(config.loss) || context.parts) return;
  const Timer timer;
  const SampleStore& store = *ctx.data.train().store;
  const EpochOrder order = context.session.sampler.training(context.phase, 0);
  const auto rows = static_cast<std::size_t>(spread_samples(store.target(context.phase.resolution).per_sample()));
  const double variance =
      label_variance(store, context.phase.resolution, std::span(order.ids).first(std::min(order.ids.size(), rows)),
                     config.rows_at_once(context.phase.batch), ctx.team);
  context.session.clock.leave_out(timer.seconds());
  const std::string warning = spread_warning(config.loss, record, phase_text(context.phase), variance);
  if (!warning.empty()) ctx.log.line("warning: " + warning);
}

void add_momenta(const PhaseContext& context, EpochRecord& record) {
  const WorkerArrays& workers = context.model_state.workers;
  if (workers.momenta().empty() || workers.count().all == 1) return;
  const Timer timer;
  const std::vector<TensorSpan> tensors = parameter_spans(context.model().network(), context.model().layout());
  record.momenta =
      momenta_spread(context.backend(), workers.momenta(), workers.count().all, tensors, context.session.ctx.team);
  context.session.clock.time().communication += timer.seconds();
}

}  // namespace

void warn_of_no_score(const PhaseContext& context) {
  const RunContext& ctx = context.session.ctx;
  if (ctx.data.validation().labelled > 0) return;
  ctx.log.line(
      fmt::format("warning: {}: {} has no validation loss, and no target, early stopping, best epoch or "
                  "plateau of the learning rate",
                  no_label_text(ctx.data.config().data.validation, context.session.config, "validation"),
                  phase_text(context.phase)));
}

EpochRecord make_epoch_record(const PhaseContext& context, const TrainState& state, Index recalibrated,
                              const Validation& validation) {
  const RunContext& ctx = context.session.ctx;
  const Phase& phase = context.phase;
  EpochRecord record;
  record.stage = phase.stage;
  record.role = phase.role;
  record.resolution = phase.resolution;
  if (context.grid != nullptr) record.grid = phase.grid;
  record.axes = phase.axes;
  record.epoch = state.stop.epochs() + 1;
  record.samples = state.samples;
  // An epoch takes every sample once, or draws as many of those with a label, or boxes of them.
  const bool drawn = ctx.data.config().data.sampling == Sampling::balanced;
  const bool taken = drawn || ctx.data.train().boxes;
  record.train_loss = state.loss / static_cast<double>(taken ? state.samples : ctx.data.train().labelled);
  record.validation_loss = validation.loss.value_or(kNoScore);
  record.metric = validation.metric;
  record.learning_rate = state.rate.at(state.stop.epochs(), 0, 1);
  record.batch = phase.batch;
  record.ranks = ctx.team.size();
  const double flop = context.model().network().flop();
  const auto passes = static_cast<double>(3 * record.samples + recalibrated +
                                          scored_rows(context, ctx.data.validation()) + state.tournament.scored);
  record.gflop = 1e-9 * passes * flop;
  record.statistics_gflop = 1e-9 * static_cast<double>(recalibrated) * flop;
  if (state.step > 0) record.sent_bytes = state.sent / static_cast<double>(state.step);
  add_momenta(context, record);
  for (std::size_t i = 0; i < state.terms.size(); ++i)
    record.terms.push_back({context.model().network().parts().terms[i].name,
                            state.term_rows[i] > 0 ? state.terms[i] / state.term_rows[i] : kNoScore});
  if (validation.loss && !std::isfinite(*validation.loss) && !context.meets_again)
    throw DivergedError(
        fmt::format("the validation loss is {} in {}, epoch {}; lower the learning rate or look for "
                    "extreme values in the validation data",
                    std::isnan(*validation.loss) ? "nan" : "inf", phase_text(phase), record.epoch));
  return record;
}

void end_epoch(PhaseContext& context, TrainState& state, EpochRecord record) {
  const RunContext& ctx = context.session.ctx;
  const Phase& phase = context.phase;
  const auto metric = rising(record.metric);
  if (context.session.config.keep_best && phase.keeps_best() &&
      state.best.update(record.epoch, monitored(phase.stop.monitor, record.validation_loss, metric)))
    context.model_state.keep_best(ctx.backend);
  state.rate.epoch_done(record.validation_loss);
  const StopReason reason = state.stop.update(record.train_loss, record.validation_loss, metric);
  context.session.clock.end_epoch(record, ctx.team);
  record.time_shares.averaging = ctx.team.sum(ctx.data.take_averaging_seconds()) / ctx.team.size();
  PhaseHistory& history = state.history;
  history.record.add(record);
  history.record.best_epoch = state.best.epoch;
  history.epochs.push_back(record);
  if (reason != StopReason::none) history.record.reason = to_string(reason);
  state.step = 0;
  state.loss = 0;
  state.terms.clear();
  state.term_rows.clear();
  state.samples = 0;
  state.sent = 0;
  state.tournament.scored = 0;
  ctx.log.epoch(record, state.finished());
  if (record.epoch == 1) {
    warn_of_spread(context, record);
    warn_of_no_metric(context, record);
  }
  if (state.finished()) ctx.log.phase(history.record);
}

}  // namespace mrmf
