#include "src/training/model_and_optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {

void WorkerArrays::prepare(Backend& backend, const SumSettings& sums, const WorkerCount& count, Span momentum) {
  // One worker alone, too, so that a checkpoint has them on any number of ranks.
  const bool local = sums.adds_directions(), feedback = sums.error_feedback;
  const auto own = static_cast<std::size_t>(count.own);
  if (count_ == count && momenta_.size() == (local ? own : 0) && residuals_.size() == (feedback ? own : 0)) return;
  count_ = count;
  arenas_.clear(), momenta_.clear(), residuals_.clear();
  const auto make = [&] { return arenas_.emplace_back(backend.allocate(std::ssize(momentum))).span(); };
  for (std::size_t i = 0; local && i < own; ++i) momenta_.push_back(i == 0 ? momentum : make());
  for (std::size_t i = 0; feedback && i < own; ++i) residuals_.push_back(make());
  sum_residual_ = feedback ? make() : Span{};
}

void WorkerArrays::begin(Backend& backend) {
  for (std::size_t i = 1; i < momenta_.size(); ++i) std::ranges::copy(momenta_.front(), momenta_[i].begin());
  for (const Span residual : residuals_) backend.fill(residual, 0);
  if (!sum_residual_.empty()) backend.fill(sum_residual_, 0);
}

std::vector<Span> WorkerArrays::all() const {
  std::vector<Span> spans(momenta_);
  spans.insert(spans.end(), residuals_.begin(), residuals_.end());
  if (!sum_residual_.empty()) spans.push_back(sum_residual_);
  return spans;
}

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

void ShardedUpdate::update(const ArenaSpan& summed, const ArenaSpan& own) {
  Model& model = model_state_.model;
  model_state_.optimizer.update(*step_, model.params(), model.grads(), own);
  if (own.count == summed.count) return;  // every rank updates it
  pieces_.insert_or_assign(summed.first, Pieces{summed, own});
  whole_ = false;
}

// The sum of one rank's moments and the others' zeros.
void ShardedUpdate::complete() {
  if (whole_) return;
  const std::vector<ArenaSpan>& cuts = model_state_.model.layout().partitioned();
  for (const auto& [first, pieces] : pieces_) {
    const bool cut = std::ranges::any_of(cuts, [first = first](const ArenaSpan& one) { return one.first == first; });
    for (const Span all : model_state_.optimizer.moments()) {
      const Span moments = span_at(all, pieces.summed), own = span_at(all, pieces.own);
      std::fill(moments.data(), own.data(), 0.0F);
      std::fill(own.data() + own.size(), moments.data() + moments.size(), 0.0F);
      (cut ? ranks_.same_block : ranks_.all).sum(moments);
    }
  }
  whole_ = true;
}

}  // namespace mrmf
