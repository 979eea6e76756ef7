#include "src/training/part_updates.hpp"

#include <algorithm>

namespace mrmf {
namespace {

// Neighbouring layers are updated at once.
void add_span(std::vector<ArenaSpan>& spans, const ArenaSpan& span) {
  if (span.count == 0) return;
  if (!spans.empty() && aligned(spans.back().end()) == span.first)
    spans.back().count = span.end() - spans.back().first;
  else
    spans.push_back(span);
}

}  // namespace

PartUpdates::PartUpdates(const TrainingConfig& training, const OptimizerSettings& phase, const Model& model)
    : settings_(model.network().parts()), order_(settings_), phase_(phase) {
  const Network& network = model.network();
  std::vector<LayerSpec> specs;
  for (const LayerEntry& entry : network.entries()) specs.push_back(entry.spec);
  const std::vector<std::optional<std::size_t>> part = parts_of(settings_, specs);
  for (const PartConfig& own : training.parts.parts) parts_.push_back({own.name, own.settings(phase), {}});
  if (parts_.empty()) parts_.push_back({"", phase, {}});
  for (std::size_t i = 0; i < network.size(); ++i)
    if (specs[i].weights_of.empty()) add_span(parts_[part[i].value_or(0)].spans, model.layout().params_of(i));
}

bool PartUpdates::trains(std::size_t turn, const Own& part) const {
  return part.name.empty() || settings_.trains(turn, part.name);
}

void PartUpdates::clear_others(Backend& backend, const StepContext& step, Span grads) const {
  for (const Own& part : parts_)
    if (!trains(step.turn, part))
      for (const ArenaSpan& span : part.spans) backend.fill(span_at(grads, span), 0);
}

void PartUpdates::update(ModelState& model_state, const StepContext& step, const StepPosition& position,
                         const Factors& factors) const {
  Model& model = model_state.model;
  for (const Own& part : parts_) {
    if (!trains(step.turn, part)) continue;
    const Index earlier = order_.before(position.epoch, position.step, position.steps,
                                        [&](std::size_t turn) { return trains(turn, part); });
    OptimizerSettings settings = part.settings;
    settings.weight_decay *= factors.weight_decay;
    const double rate = factors.learning_rate * part.settings.learning_rate / phase_.learning_rate;
    for (const ArenaSpan& own : part.spans)
      model_state.optimizer.update_apart(settings, static_cast<std::uint64_t>(earlier), rate, step, model.params(),
                                         model.grads(), own);
  }
}

void add_terms(const PartSettings& settings, const StepContext& step, ConstSpan term_losses, Index rows,
               TrainState& state) {
  state.terms.resize(settings.terms.size());
  state.term_rows.resize(settings.terms.size());
  for (std::size_t i = 0; i < settings.terms.size(); ++i) {
    if (!settings.computes(step.turn, settings.terms[i])) continue;
    state.terms[i] += double{term_losses[i]};
    state.term_rows[i] += static_cast<double>(rows);
  }
}

}  // namespace mrmf
