#include "src/training/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/errors.hpp"
#include "src/plan/stop_rule.hpp"
#include "src/training/precise_batch_norm.hpp"
#include "src/training/training_step.hpp"
#include "src/training/validation.hpp"

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

}  // namespace mrmf
