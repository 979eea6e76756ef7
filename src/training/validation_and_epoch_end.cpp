// Validation and precise batch norm, and what follows an epoch: a probe, the record, the best model, the learning
// rate, early stopping. Declared in training_loop.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/errors.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {

// Validation: a model's loss and metric on the validation data, after batch norms' statistics were taken anew
// (training.precise_batch_norm). Declared in training_loop.hpp.

namespace {

// The running averages of one batch alone, by a forward in training.
void forward_in_training(PhaseContext& context, const EpochSteps& epoch, std::size_t k, const StepContext& step) {
  context.backend().begin(step);
  const Feed::Batch batch = context.batches.training.batch(step);
  if (context.replicas)
    context.replicas->recalibrate(step, shard_rows(epoch.order, k), batch);
  else
    context.model().forward(step, batch.x);
}

Index take_statistics(PhaseContext& context, const EpochSteps& epoch, int batches) {
  PreciseBatchNorm precise(context.backend(), context.model(), context.model_state.network_settings.layers);
  if (batches == 0 || !precise.any()) return 0;
  EpochOrder order = epoch.order;
  order.steps.resize(std::min(order.steps.size(), static_cast<std::size_t>(batches)));
  context.batches.training.expect(context.session.sampler.in_micro_batches(order));
  for (std::size_t k = 0; k < order.steps.size(); ++k)
    for (int micro_batch = 0; micro_batch < context.session.config.accumulate; ++micro_batch) {
      const StepContext step = micro_batch_step(context, epoch, k, micro_batch);
      context.load(context.batches.training, step.ids);
      const Timer timer;
      precise.before();
      forward_in_training(context, epoch, k, step);
      precise.after();
      context.session.clock.time().compute += timer.seconds();
    }
  precise.finish();
  return epoch.rows(0, order.steps.size());
}

}  // namespace

Index recalibrate_batch_norms(PhaseContext& context, const EpochSteps& epoch, int batches) {
  const Index rows = take_statistics(context, epoch, batches);
  if (!context.local_statistics()) return rows;
  const Timer timer;
  average_state(context.backend(), context.model(), context.session.ctx.team);
  context.session.clock.time().communication += timer.seconds();
  return rows;
}

PreciseBatchNorm::PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers)
    : backend_(backend), model_(model), momenta_(model.state().size()), sums_(momenta_.size()), read_(momenta_.size()) {
  const std::vector<LayerEntry>& entries = model.network().entries();
  MRMF_CHECK(entries.size() == layers.size(), "another network's layers");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto first = momenta_.begin() + entries[i].state.first;
    std::fill(first, first + entries[i].state.count, layers[i].momentum);
  }
}

bool PreciseBatchNorm::any() const { return !momenta_.empty(); }

// From zero, a running average becomes momentum * the batch's own statistics.
void PreciseBatchNorm::before() { backend_.fill(model_.state(), 0); }

void PreciseBatchNorm::after() {
  backend_.read(model_.state(), read_);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (momenta_[i] > 0) sums_[i] += read_[i] / momenta_[i];
  ++batches_;
}

void PreciseBatchNorm::finish() {
  MRMF_CHECK(batches_ > 0, "statistics of no batch");
  for (std::size_t i = 0; i < sums_.size(); ++i) read_[i] = static_cast<float>(sums_[i] / batches_);
  backend_.write(read_, model_.state());
}

namespace {

// The sum of the losses over the ranks, and that of the metric's sums.
double sum_over_ranks(PhaseContext& context, double loss) {
  EpochTime& time = context.session.clock.time();
  Comm& team = context.session.ctx.team;
  const Timer timer;
  loss = team.sum(loss);
  if (context.objective.measures()) context.objective.sums().sum(team);
  time.communication += timer.seconds();
  return loss;
}

// Calls `gather`; its error is that of all ranks that share the sample, which wait for each other in what follows.
void gather_shared(const PhaseContext& context, const std::function<void()>& gather) {
  if (context.grid == nullptr || !context.session.ctx.data.streams()) return gather();
  collective_try(context.grid->sample_group(), gather);
}

// Whole samples, window by window. A rank that cannot read them stops all. Of the ranks that share a sample the first
// one counts it.
double score_windows(PhaseContext& context, SampleStore& store, std::span<const std::int64_t> ids) {
  EpochTime& time = context.session.clock.time();
  const Extent& resolution = context.phase.resolution;
  const bool counts = context.grid == nullptr || context.grid->block() == 0;
  std::vector<float> x(static_cast<std::size_t>(store.sample(resolution).per_sample()));
  std::vector<float> targets(static_cast<std::size_t>(store.target(resolution).per_sample()));
  StepContext step{.training = false};
  context.add_grid(step);
  double loss = 0;
  Timer timer;
  collective_try(context.session.ctx.team, [&] {
    for (const std::int64_t& id : ids) {
      gather_shared(context, [&] {
        store.gather(resolution, {&id, 1}, {store.sample(resolution).with_rows(1), x},
                     {store.target(resolution).with_rows(1), targets});
      });
      time.io += timer.lap();
      const ConstSpan outputs = context.windowed->run(
          x, step, [&](const StepContext& of, ConstTensor part) { return context.model().forward(of, part); });
      if (counts) {
        loss += context.windowed->loss(outputs, targets);
        context.objective.add(outputs, targets);
      }
      time.compute += timer.lap();
    }
  });
  return sum_over_ranks(context, loss);
}

// Counts one batch of this rank, that of step k; `index` is where its loss is kept.
void score_batch(PhaseContext& context, const ScoredRows& rows, std::size_t k, Index index) {
  Model& model = context.model();
  const EpochOrder& order = rows.order;
  StepContext step{.training = false, .ids = ids_of(order, order.steps[k]), .batch_index = index};
  context.add_grid(step);
  context.backend().begin(step);
  context.backend().run_captured(static_cast<std::uint64_t>(order.steps[k].count), [&] {
    const Feed::Batch batch = rows.batches->batch(step);
    if (context.replicas) return context.replicas->evaluate(step, shard_rows(order, k), batch);
    const ConstTensor y = model.forward(step, batch.x);
    context.objective.run(step, y, batch.targets, {}, model.loss());
    context.backend().append_history(step, model.loss(), context.losses.span());
  });
  if (!context.replicas) context.objective.add(model, *rows.split.store, step.ids);
}

// The sum of the losses of all ranks' batches. This rank has kept so many.
double sum_over_team(PhaseContext& context, std::size_t batches) {
  EpochTime& time = context.session.clock.time();
  Timer timer;
  double loss = 0;
  if (!context.replicas)
    for (const float one : context.read_losses(0, batches)) loss += one;
  time.compute += timer.lap();
  if (!context.replicas) return sum_over_ranks(context, loss);
  loss = context.replicas->take_loss();
  if (context.objective.measures()) context.replicas->take_metrics(context.objective.sums());
  time.communication += timer.lap();
  return loss;
}

}  // namespace

double score_rows(PhaseContext& context, const ScoredRows& rows, const Range& steps) {
  context.objective.begin();
  const auto first = static_cast<std::size_t>(steps.first), end = static_cast<std::size_t>(steps.first + steps.count);
  if (context.windowed) {
    Range ids = steps.count > 0 ? rows.order.steps[first] : Range{};
    for (std::size_t k = first + 1; k < end; ++k) ids.count += rows.order.steps[k].count;
    return score_windows(context, *rows.split.store, ids_of(rows.order, ids));
  }
  Index batches = 0;
  for (std::size_t k = first; k < end; ++k) {
    context.load(*rows.batches, ids_of(rows.order, rows.order.steps[k]));
    if (rows.order.steps[k].count == 0) continue;
    const Timer timer;
    score_batch(context, rows, k, batches++);
    context.session.clock.time().compute += timer.seconds();
  }
  return sum_over_team(context, static_cast<std::size_t>(batches));
}

Index scored_rows(const PhaseContext& context, const Split& split) {
  return split.shape.samples * (context.windowed ? context.windowed->windows() : 1);
}

Validation validate(PhaseContext& context) {
  const Split& split = context.session.ctx.data.validation();
  const EpochOrder order =
      context.windowed ? context.expect_whole() : context.session.sampler.validation(context.phase.batch);
  Batches* const batches = context.batches.validation ? &*context.batches.validation : nullptr;
  const double loss = score_rows(context, {batches, split, order}, {0, std::ssize(order.steps)});
  if (split.labelled == 0) return {{}, context.objective.metric()};
  return {loss / static_cast<double>(split.labelled), context.objective.metric()};
}

// What follows an epoch: a probe of what a coarse model is worth, the epoch's record, its warnings, the best model, the
// learning rate, and whether the phase ends. Declared in training_loop.hpp.

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
