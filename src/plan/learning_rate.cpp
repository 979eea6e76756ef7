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

}  // namespace mrmf
