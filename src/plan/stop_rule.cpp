#include "src/plan/stop_rule.hpp"

namespace mrmf {

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::epochs: return "epochs";
    case StopReason::plateau: return "plateau";
    case StopReason::target: return "target";
  }
  return "";
}

StopReason StopRule::update(double train_loss, double validation_loss, std::optional<double> metric) {
  ++memory_.epochs;
  const bool slow = memory_.previous && settings_.threshold && *memory_.previous - train_loss < *settings_.threshold;
  memory_.slow_epochs = slow ? memory_.slow_epochs + 1 : 0;
  memory_.previous = train_loss;
  if (settings_.target && validation_loss <= *settings_.target) return StopReason::target;
  if (settings_.metric_target && metric && *metric >= settings_.metric_target->least) return StopReason::target;
  if (settings_.threshold && memory_.slow_epochs >= settings_.patience) return StopReason::plateau;
  if (memory_.epochs >= settings_.epochs) return StopReason::epochs;
  return StopReason::none;
}

}  // namespace mrmf
