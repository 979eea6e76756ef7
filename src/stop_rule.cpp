#include "src/stop_rule.hpp"

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

StopReason StopRule::update(double train_loss, double validation_loss) {
  ++epochs_;
  const bool slow = previous_ && settings_.threshold && *previous_ - train_loss < *settings_.threshold;
  slow_epochs_ = slow ? slow_epochs_ + 1 : 0;
  previous_ = train_loss;
  if (settings_.target && validation_loss <= *settings_.target) return StopReason::target;
  if (settings_.threshold && slow_epochs_ >= settings_.patience) return StopReason::plateau;
  if (epochs_ >= settings_.epochs) return StopReason::epochs;
  return StopReason::none;
}

}  // namespace mrmf
