#include "src/optimizer.hpp"

#include <cmath>

namespace mrmf {

Optimizer::Optimizer(Backend& backend, const OptimizerSettings& settings, Index count)
    : backend_(&backend), settings_(settings), first_(backend.allocate(count)) {
  if (settings_.name != "sgd") second_ = backend.allocate(count);
}

void Optimizer::step(double learning_rate, Span w, ConstSpan dw) {
  ++steps_;
  const auto rate = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(settings_.weight_decay);
  if (settings_.name == "sgd") {
    backend_->sgd({rate, static_cast<float>(settings_.momentum), decay}, w, dw, first_.span());
    return;
  }
  const bool decoupled = settings_.name == "adamw";
  const auto t = static_cast<double>(steps_);
  const AdamStep step{rate,
                      static_cast<float>(settings_.beta1),
                      static_cast<float>(settings_.beta2),
                      static_cast<float>(settings_.epsilon),
                      decoupled ? 0.0F : decay,
                      decoupled ? decay : 0.0F,
                      static_cast<float>(1.0 - std::pow(settings_.beta1, t)),
                      static_cast<float>(1.0 - std::pow(settings_.beta2, t))};
  backend_->adam(step, w, dw, first_.span(), second_.span());
}

std::vector<Span> Optimizer::moments() {
  if (settings_.name == "sgd") return {first_.span()};
  return {first_.span(), second_.span()};
}

void Optimizer::reset() {
  for (const Span moment : moments()) backend_->fill(moment, 0.0F);
  steps_ = 0;
}

void Optimizer::configure(const OptimizerSettings& settings) {
  MRMF_CHECK((settings.name == "sgd") == (settings_.name == "sgd"), "the kind of optimizer cannot change in a run");
  settings_ = settings;
}

}  // namespace mrmf
