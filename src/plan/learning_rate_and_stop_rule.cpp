#include "src/plan/learning_rate_and_stop_rule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mrmf {

LearningRate::LearningRate(const OptimizerSettings& settings, int epochs, CurvePart part)
    : settings_(settings), epochs_(epochs), part_(part) {}

double LearningRate::at(int epoch, Index step, Index steps) const {
  const bool warming = part_.begin == 0 && epoch < settings_.warmup;
  const double warm = warming ? std::min(1.0, (epoch + 1) / settings_.warmup) : 1.0;
  const double within = epoch + static_cast<double>(step) / static_cast<double>(steps);
  const double progress = part_.begin + (part_.end - part_.begin) * std::min(1.0, within / epochs_);
  double factor = 1.0;
  if (settings_.rule == RateRule::cosine) factor = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  if (settings_.rule == RateRule::linear) factor = 1.0 - progress;
  if (settings_.rule == RateRule::piecewise)
    for (const double boundary : settings_.boundaries) factor *= epoch >= boundary ? settings_.factor : 1.0;
  if (settings_.rule == RateRule::plateau) factor = state_.factor;
  return settings_.learning_rate * state_.scale * warm * factor;
}

void LearningRate::epoch_done(double validation_loss) {
  ++state_.epochs;
  if (settings_.rule != RateRule::plateau || state_.epochs <= settings_.warmup) return;
  if (std::isnan(validation_loss)) return;
  if (validation_loss < state_.best * (1.0 - settings_.plateau_threshold)) {
    state_.best = validation_loss;
    state_.bad_epochs = 0;
  } else {
    ++state_.bad_epochs;
  }
  if (state_.cooldown_left > 0) {
    --state_.cooldown_left;
    state_.bad_epochs = 0;
  }
  if (state_.bad_epochs > settings_.patience) {
    state_.factor *= settings_.factor;
    state_.cooldown_left = settings_.cooldown;
    state_.bad_epochs = 0;
  }
}

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::epochs: return "epochs";
    case StopReason::plateau: return "plateau";
    case StopReason::target: return "target";
    case StopReason::early_stopping: return "early_stopping";
    case StopReason::slope: return "slope";
  }
  return "";
}

// A change that is too small does not count, but small ones that add up do: `best` stays where it was.
void StopRule::count_unimproved(double value) {
  if (std::isnan(value)) return;  // nothing was scored, so nothing is known
  const auto change = [&](double best) { return settings_.early_stopping.least_change * std::abs(best); };
  const bool better = !state_.best || value < *state_.best - change(*state_.best);
  if (better) state_.best = value;
  state_.unimproved = better ? 0 : state_.unimproved + 1;
}

bool StopRule::probe_due() const {
  const int epoch = state_.epochs + 1;
  return settings_.probe_epochs > 0 && epoch % settings_.probe_epochs == 0 && epoch < settings_.epochs;
}

StopReason StopRule::update(double train_loss, double validation_loss, std::optional<double> metric) {
  ++state_.epochs;
  const bool slow = state_.previous && settings_.threshold && *state_.previous - train_loss < *settings_.threshold;
  state_.slow_epochs = slow ? state_.slow_epochs + 1 : 0;
  state_.previous = train_loss;
  count_unimproved(monitored(settings_.monitor, validation_loss, metric));
  if (settings_.target && validation_loss <= *settings_.target) return StopReason::target;
  if (const auto& target = settings_.metric_target;
      target && metric && *metric >= rising(target->metric, target->least))
    return StopReason::target;
  if (settings_.threshold && state_.slow_epochs >= settings_.patience) return StopReason::plateau;
  const int patience = settings_.early_stopping.patience;
  if (patience > 0 && state_.unimproved >= patience) return StopReason::early_stopping;
  if (!state_.probes.empty() && state_.probes.back().epoch == state_.epochs && pays_no_more(state_.probes))
    return StopReason::slope;
  if (state_.epochs >= settings_.epochs) return StopReason::epochs;
  return StopReason::none;
}

int probe_half_steps(double share, int steps) {
  return std::clamp(static_cast<int>(std::lround(share * steps / 2)), 1, std::max(1, steps / 2));
}

bool pays_no_more(const std::vector<ProbeRecord>& probes) {
  if (probes.size() < 2) return false;
  const ProbeRecord &before = probes[probes.size() - 2], &now = probes.back();
  const double coarse = (before.end - now.end) / (now.gflop - before.gflop);
  const double fine = (now.halfway - now.end) / now.probe_gflop;
  return coarse < fine;
}

}  // namespace mrmf
