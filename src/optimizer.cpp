#include "src/optimizer.hpp"

#include <cmath>

namespace mrmf {

Optimizer::Optimizer(Backend& backend, const OptimizerSettings& settings, Index count)
    : backend_(&backend), settings_(settings), first_(backend.allocate(count)) {
  if (settings_.name != "sgd") second_ = backend.allocate(count);
}

void Optimizer::advance(double learning_rate, Step& step) {
  ++steps_;
  const auto rate = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(settings_.weight_decay);
  if (settings_.name == "sgd") {
    step.sgd = {rate, static_cast<float>(settings_.momentum), decay};
    return;
  }
  const bool decoupled = settings_.name == "adamw";
  // Corrections from the same float32 coefficients that the moments are made with: 1 - 0.999F is not 1 - 0.999.
  const auto beta1 = static_cast<float>(settings_.beta1), beta2 = static_cast<float>(settings_.beta2);
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 - std::pow(static_cast<double>(beta), static_cast<double>(steps_)));
  };
  step.adam = {rate,
               beta1,
               beta2,
               static_cast<float>(settings_.epsilon),
               decoupled ? 0.0F : decay,
               decoupled ? decay : 0.0F,
               correction(beta1),
               correction(beta2)};
}

void Optimizer::update(const Step& step, Span w, ConstSpan dw) {
  if (settings_.name == "sgd")
    backend_->sgd(step, w, dw, first_.span());
  else
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
