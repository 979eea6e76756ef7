#include "src/training/part_updates.hpp"

#include <algorithm>

namespace mrmf {
namespace {

// Neighbouring layers are updated at once.
void add_place(std::vector<ArenaSpan>& places, const ArenaSpan& place) {
  if (place.count == 0) return;
  if (!places.empty() && aligned(places.back().end()) == place.first)
    places.back().count = place.end() - places.back().first;
  else
    places.push_back(place);
}

}  // namespace

PartUpdates::PartUpdates(const TrainingConfig& training, const OptimizerSettings& phase, const Model& model)
    : settings_(model.network().parts()), order_(settings_), phase_(phase) {
  const Network& network = model.network();
  std::vector<LayerSpec> specs;
  for (const Entry& entry : network.entries()) specs.push_back(entry.spec);
  const std::vector<std::optional<std::size_t>> part = parts_of(settings_, specs);
  for (const PartConfig& own : training.parts.parts) parts_.push_back({own.name, own.settings(phase), {}});
  if (parts_.empty()) parts_.push_back({"", phase, {}});
  for (std::size_t i = 0; i < network.size(); ++i)
    if (specs[i].weights_of.empty()) add_place(parts_[part[i].value_or(0)].places, model.layout().params_of(i));
}

bool PartUpdates::trains(std::size_t turn, const Own& part) const {
  return part.name.empty() || settings_.trains(turn, part.name);
}

void PartUpdates::clear_others(Backend& backend, const StepContext& step, Span grads) const {
  for (const Own& part : parts_)
    if (!trains(step.turn, part))
      for (const ArenaSpan& place : part.places) backend.fill(span_at(grads, place), 0);
}

void PartUpdates::update(ModelState& model_state, const StepContext& step, const Place& place,
                         const Factors& factors) const {
  Model& model = model_state.model;
  for (const Own& part : parts_) {
    if (!trains(step.turn, part)) continue;
    const Index earlier =
        order_.before(place.epoch, place.step, place.steps, [&](std::size_t turn) { return trains(turn, part); });
    OptimizerSettings settings = part.settings;
    settings.weight_decay *= factors.weight_decay;
    const double rate = factors.learning_rate * part.settings.learning_rate / phase_.learning_rate;
    for (const ArenaSpan& own : part.places)
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
