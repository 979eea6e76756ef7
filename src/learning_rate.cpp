#include "src/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace mrmf {

LearningRate::LearningRate(const OptimizerSettings& settings, int epochs, CurvePart part)
    : settings_(settings), epochs_(epochs), part_(part), best_(std::numeric_limits<double>::infinity()) {}

double LearningRate::at(int epoch, Index step, Index steps) const {
  const bool warming = part_.begin == 0 && epoch < settings_.warmup;
  const double warm = warming ? std::min(1.0, (epoch + 1) / settings_.warmup) : 1.0;
  const double within = epoch + static_cast<double>(step) / static_cast<double>(steps);
  const double progress = part_.begin + (part_.end - part_.begin) * std::min(1.0, within / epochs_);
  double factor = 1.0;
  if (settings_.rule == "cosine") factor = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  if (settings_.rule == "linear") factor = 1.0 - progress;
  if (settings_.rule == "piecewise")
    for (const double boundary : settings_.boundaries) factor *= epoch >= boundary ? settings_.factor : 1.0;
  if (settings_.rule == "plateau") factor = plateau_factor_;
  return settings_.learning_rate * warm * factor;
}

void LearningRate::epoch_done(double validation_loss) {
  ++epochs_done_;
  if (settings_.rule != "plateau" || epochs_done_ <= settings_.warmup) return;
  if (validation_loss < best_ * (1.0 - settings_.plateau_threshold)) {
    best_ = validation_loss;
    bad_epochs_ = 0;
  } else {
    ++bad_epochs_;
  }
  if (cooldown_left_ > 0) {
    --cooldown_left_;
    bad_epochs_ = 0;
  }
  if (bad_epochs_ > settings_.patience) {
    plateau_factor_ *= settings_.factor;
    cooldown_left_ = settings_.cooldown;
    bad_epochs_ = 0;
  }
}

}  // namespace mrmf
