#include "src/plan/learning_rate.hpp"

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
  if (settings_.rule == RateRule::plateau) factor = memory_.factor;
  return settings_.learning_rate * memory_.scale * warm * factor;
}

void LearningRate::epoch_done(double validation_loss) {
  ++memory_.epochs;
  if (settings_.rule != RateRule::plateau || memory_.epochs <= settings_.warmup) return;
  if (std::isnan(validation_loss)) return;
  if (validation_loss < memory_.best * (1.0 - settings_.plateau_threshold)) {
    memory_.best = validation_loss;
    memory_.bad_epochs = 0;
  } else {
    ++memory_.bad_epochs;
  }
  if (memory_.cooldown_left > 0) {
    --memory_.cooldown_left;
    memory_.bad_epochs = 0;
  }
  if (memory_.bad_epochs > settings_.patience) {
    memory_.factor *= settings_.factor;
    memory_.cooldown_left = settings_.cooldown;
    memory_.bad_epochs = 0;
  }
}

}  // namespace mrmf
