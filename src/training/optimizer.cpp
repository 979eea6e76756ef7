#include "src/training/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {

Optimizer::Optimizer(Backend& backend, const OptimizerSettings& settings, Index count, Index bottom, bool in_place)
    : backend_(&backend), settings_(settings), bottom_(bottom), moments_(moment_count(settings, in_place)) {
  if (moments_ > 0) first_ = backend.allocate(count);
  if (moments_ > 1) second_ = backend.allocate(count);
}

namespace {

// The numbers of an update of moments of these ages.
void write_numbers(const OptimizerSettings& settings, const MomentAges& ages, double learning_rate, StepContext& step) {
  const auto rate = static_cast<float>(learning_rate);
  const auto decay = static_cast<float>(settings.weight_decay);
  if (settings.name == OptimizerKind::sgd) {
    step.sgd = {rate, static_cast<float>(settings.momentum), decay};
    return;
  }
  if (settings.name == OptimizerKind::lion) {
    step.lion = {rate, static_cast<float>(settings.beta1), static_cast<float>(settings.beta2), decay};
    return;
  }
  const bool decoupled = settings.name == OptimizerKind::adamw;
  // Corrections use the same float32 coefficients as the moments: 1 - 0.999F is not 1 - 0.999.
  const auto beta1 = static_cast<float>(settings.beta1), beta2 = static_cast<float>(settings.beta2);
  const auto of_age = [&](std::uint64_t age) {
    const auto correction = [&](float beta) {
      return static_cast<float>(1.0 - std::pow(static_cast<double>(beta), static_cast<double>(age)));
    };
    return AdamStep{rate,
                    beta1,
                    beta2,
                    static_cast<float>(settings.epsilon),
                    decoupled ? 0.0F : decay,
                    decoupled ? decay : 0.0F,
                    correction(beta1),
                    correction(beta2)};
  };
  step.adam = {of_age(ages.bottom), of_age(ages.top)};
}

}  // namespace

void Optimizer::advance(double learning_rate, StepContext& step) {
  ++ages_.bottom, ++ages_.top;
  write_numbers(settings_, ages_, learning_rate, step);
}

void Optimizer::update_apart(const OptimizerSettings& settings, std::uint64_t earlier, double learning_rate,
                             StepContext step, Span w, ConstSpan dw, const ArenaSpan& span) {
  MRMF_CHECK(moment_count(settings.name) <= moments_, "moments that there is no memory for");
  write_numbers(settings, {earlier + 1, earlier + 1}, learning_rate, step);
  update_at(span, step, span_at(w, span),
            dw.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count)), settings.name,
            true);
}

void Optimizer::update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw) {
  update_at(span, step, w, dw, settings_.name, ages_.bottom == ages_.top);
}

void Optimizer::update_at(const ArenaSpan& span, const StepContext& step, Span w, ConstSpan dw, OptimizerKind kind,
                          bool one_age) {
  if (moments_ == 0) return backend_->sgd(step, w, dw, {});
  if (kind == OptimizerKind::sgd) return backend_->sgd(step, w, dw, span_at(first_.span(), span));
  if (kind == OptimizerKind::lion) return backend_->lion(step, w, dw, span_at(first_.span(), span));
  const auto adam = [&](std::size_t group, Index from, Index to) {
    if (from >= to) return;
    const auto of = [&](auto all, Index begin) {
      return all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(to - from));
    };
    backend_->adam(step, group, of(w, from - span.first), of(dw, from - span.first), of(first_.span(), from),
                   of(second_.span(), from));
  };
  if (one_age) return adam(0, span.first, span.end());
  adam(0, span.first, std::min(span.end(), bottom_));
  adam(1, std::max(span.first, bottom_), span.end());
}

std::vector<Span> Optimizer::moments() {
  if (moments_ == 0) return {};
  if (moments_ == 1) return {first_.span()};
  return {first_.span(), second_.span()};
}

void Optimizer::reset() {
  for (const Span moment : moments()) backend_->fill(moment, 0.0F);
  ages_ = {};
}

void Optimizer::configure(const OptimizerSettings& settings) {
  const auto kind = [](OptimizerKind name) { return name == OptimizerKind::adamw ? OptimizerKind::adam : name; };
  MRMF_CHECK(kind(settings.name) == kind(settings_.name), "the kind of optimizer cannot change in a run");
  MRMF_CHECK(moments_ > 0 || settings.momentum == 0, "momentum without a velocity");
  settings_ = settings;
}

}  // namespace mrmf
