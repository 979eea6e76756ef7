#include "src/plan/stop_rule.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {

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
