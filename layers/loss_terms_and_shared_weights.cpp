// The loss terms of a network of several parts, the units that a turn computes, and layers that have the weights of
// another.
#include "layers/loss_terms_and_shared_weights.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "layers/geometry_and_reach.hpp"
#include "layers/model.hpp"

namespace mrmf {
namespace {

// Terms are of all numbers of an output alike, whatever its positions: numbers as so many positions, over which a
// backend's threads may share them out, and yes or no as so many outputs.
Shape flat(const Shape& shape, bool numbers) {
  if (numbers) return {.n = shape.n, .spatial = {1, 1, shape.per_sample()}, .channels = 1, .axes = 1};
  return {.n = shape.n, .channels = shape.per_sample()};
}

LossSettings weighted(const LossTerm& term) {
  LossSettings settings = term.loss;
  for (float& weight : settings.weights) weight *= term.weight;
  return settings;
}

}  // namespace

LossTerms::LossTerms(Backend& backend, const Network& network)
    : backend_(backend), settings_(network.parts()), output_(network.output()), reads_{network.size()} {
  if (!backend.synchronous())
    throw ConfigError("training.terms: networks of several parts train on the CPU; set run.device = \"cpu\"");
  Index largest = 0;
  for (std::size_t i = 0; i < settings_.terms.size(); ++i) {
    const LossTerm& settings = settings_.terms[i];
    const TermInputs& inputs = network.term_inputs()[i];
    Term term;
    term.numbers = settings.loss.task() == Task::regression;
    term.output = flat(network.output_numbered(inputs.output), term.numbers);
    term.loss = backend.loss(weighted(settings), term.output, term.output.channels);
    term.first = reads_.size();
    reads_.push_back(inputs.output);
    term.reads_target = inputs.target.has_value();
    if (term.reads_target) {
      reads_.push_back(*inputs.target);
    } else {
      term.value = backend.allocate(term.output.count());
      backend.fill(term.value.span(), settings.value);
    }
    largest = std::max(largest, term.output.count());
    terms_.push_back(std::move(term));
  }
  scratch_ = backend.allocate(largest);
}

void LossTerms::backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor, Tensor) {
  MRMF_CHECK(false, "loss terms have a call of their own");
}

void LossTerms::run(const StepContext& step, std::span<const ConstTensor> x, std::span<const Tensor> dx, Span sums) {
  backend_.fill(sums, 0);
  for (const Tensor& one : dx)
    if (!one.data.empty()) backend_.fill(one.data, 0);
  double all = 0;
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    if (!settings_.computes(step.turn, settings_.terms[i])) continue;
    const Span sum = sums.subspan(1 + i, 1);
    run(step, terms_[i], x, dx, sum);
    all += sum[0];
  }
  sums[0] = static_cast<float>(all);
}

void LossTerms::run(const StepContext& step, Term& term, std::span<const ConstTensor> x, std::span<const Tensor> dx,
                    Span sum) {
  const Index rows = x[term.first].shape.n;
  const auto count = static_cast<std::size_t>(rows * term.output.per_sample());
  const ConstTensor y{term.output.with_rows(rows), x[term.first].data};
  const ConstSpan target = term.reads_target ? x[term.first + 1].data : ConstSpan(term.value.span().first(count));
  const Span wanted = dx[term.first].data;
  const Span dy = wanted.empty() ? scratch_.span().first(count) : wanted;
  term.loss->run(step, y, {term.output.with_rows(rows), target}, dy, sum);
  if (!term.reads_target || !term.numbers || dx[term.first + 1].data.empty()) return;
  std::ranges::transform(dy, dx[term.first + 1].data.begin(), [](float slope) { return -slope; });
}

namespace {

class Finder {
 public:
  Finder(const Execution& execution, const Network& network)
      : units_(execution.units), network_(network), settings_(network.parts()) {
    for (const LayerEntry& entry : network.entries()) specs_.push_back(entry.spec);
    part_ = parts_of(settings_, specs_);
  }

  LiveUnits in_turn(std::size_t turn) const {
    LiveUnits live{none(), none()};
    std::vector<bool> reached = none();
    const Unit& terms = units_.back();
    live.forward.back() = live.backward.back() = true;
    for (std::size_t i = 0, input = 1; i < settings_.terms.size(); ++i)
      for (int k = network_.term_inputs()[i].target ? 2 : 1; k > 0; --k, ++input)
        if (const std::size_t number = terms.reads[input]; number > 0 && settings_.computes(turn, settings_.terms[i]))
          live.forward[number - 1] = reached[number - 1] = true;
    for (std::size_t u = units_.size() - 1; u-- > 0;)
      for (const std::size_t number : units_[u].reads) {
        if (number == 0 || is_source(kind(u))) continue;
        if (live.forward[u]) live.forward[number - 1] = true;
        if (reached[u] && kind(u) != LayerKind::stop_gradient) reached[number - 1] = true;
      }
    const std::vector<bool> wanting = wants(turn);
    // A gradient ends where it is stopped; it may lie in the memory of the one that goes on.
    for (std::size_t u = 0; u + 1 < units_.size(); ++u)
      live.backward[u] = reached[u] && (wanting[u] || kind(u) == LayerKind::stop_gradient);
    return live;
  }

  LiveUnits in_evaluation() const {
    LiveUnits live{none(), none()};
    live.forward.back() = true;
    if (const std::size_t number = units_.back().reads.front(); number > 0) live.forward[number - 1] = true;
    for (std::size_t u = units_.size() - 1; u-- > 0;)
      for (const std::size_t number : units_[u].reads)
        if (number > 0 && live.forward[u] && !is_source(kind(u))) live.forward[number - 1] = true;
    return live;
  }

 private:
  std::vector<bool> none() const { return std::vector<bool>(units_.size(), false); }
  LayerKind kind(std::size_t u) const { return specs_[units_[u].first].kind; }

  /// Whether the unit has parameters that the turn updates, or needs gradients for one before it that has.
  std::vector<bool> wants(std::size_t turn) const {
    std::vector<bool> wanting = none();
    for (std::size_t u = 0; u + 1 < units_.size(); ++u) {
      for (std::size_t i = units_[u].first; i < units_[u].last; ++i) wanting[u] = wanting[u] || trained(i, turn);
      if (kind(u) == LayerKind::stop_gradient) continue;
      for (const std::size_t number : units_[u].reads)
        if (number > 0 && wanting[number - 1]) wanting[u] = true;
    }
    return wanting;
  }

  bool trained(std::size_t i, std::size_t turn) const {
    if (network_.entry(i).params.count == 0 || specs_[i].every > 0) return false;
    const std::string& owner = specs_[i].weights_of.empty() ? specs_[i].name : specs_[i].weights_of;
    const auto at = std::ranges::find(specs_, owner, &LayerSpec::name) - specs_.begin();
    const std::optional<std::size_t>& part = part_[static_cast<std::size_t>(at)];
    return !part || settings_.trains(turn, settings_.parts[*part].name);
  }

  const std::vector<Unit>& units_;
  const Network& network_;
  const PartSettings& settings_;
  std::vector<LayerSpec> specs_;
  std::vector<std::optional<std::size_t>> part_;
};

}  // namespace

std::vector<LiveUnits> live_units(const Execution& execution, const Network& network) {
  std::vector<LiveUnits> all;
  const Finder finder(execution, network);
  for (std::size_t turn = 0; turn < network.parts().turn_count(); ++turn) all.push_back(finder.in_turn(turn));
  all.push_back(finder.in_evaluation());
  return all;
}

// What a model does that is a network of several parts (layers/parts.hpp).

bool Model::computes(std::size_t unit, const StepContext& step, std::vector<bool> LiveUnits::*pass) const {
  if (live_.empty()) return true;
  const LiveUnits& live = step.training ? live_.at(step.turn) : live_.back();
  return (live.*pass)[unit];
}

// Copies' gradients are added before those of the ranks.
void Model::backward_from_terms(const StepContext& step, ConstTensor x, const GradientSums& sums) {
  for (std::size_t u = execution_.units.size(); u-- > 0;) {
    if (computes(u, step, &LiveUnits::backward))
      backward(execution_.units[u], step, x);
    else
      clear_gradients(execution_.units[u], step, x);
  }
  fold_gradients(*backend_, weights_of_others_, grads());
  if (sums.all_reduce != nullptr) all_reduce_gradients(sums);
}

// dy is zero, or nobody before the unit wants a gradient.
void Model::clear_gradients(const Unit& unit, const StepContext& step, ConstTensor x) {
  backend_->fill(buffers_of(unit, step).grads, 0);
  const ConstTensor dy = activation(unit.memory.dy, unit.out.with_rows(x.shape.n));
  if (unit.join != nullptr) {
    backward(unit, step, x);
    return;
  }
  for (std::size_t i = 0; i < unit.reads.size(); ++i) {
    const Tensor dx = gradient_of(unit, i, x);
    if (!dx.data.empty() && dx.data.data() != dy.data.data()) backend_->fill(dx.data, 0);
  }
  add_up(unit, x);
}

void Model::run_terms(const Unit& unit, const StepContext& step, ConstTensor x) {
  x_.clear(), dx_.clear();
  for (std::size_t i = 0; i < unit.reads.size(); ++i) {
    x_.push_back(input_of(unit, i, x));
    dx_.push_back(gradient_of(unit, i, x));
  }
  unit.terms->run(step, x_, dx_, grads_.span().subspan(static_cast<std::size_t>(layout().gradients())));
}

namespace {

// The layer whose weights entry i has.
const LayerEntry& source_of(const Network& network, std::size_t i) {
  const LayerSpec& spec = network.entry(i).spec;
  const std::vector<LayerEntry>& entries = network.entries();
  const auto found = std::ranges::find_if(entries, [&](const LayerEntry& e) { return e.name == spec.weights_of; });
  require(found != entries.end(), spec,
          fmt::format("weights_of names \"{}\", and no layer has that name", spec.weights_of));
  require(
      static_cast<std::size_t>(found - entries.begin()) < i, spec,
      fmt::format("weights_of names \"{}\", which comes later in the list; name an earlier layer", spec.weights_of));
  return *found;
}

void copy(Backend& backend, const WeightCopy& one, Span params) {
  const Span to = span_at(params, one.to);
  backend.fill(to, 0);
  backend.accumulate(span_at(params, one.from), to);
}

}  // namespace

void require_copies(const Network& network) {
  for (std::size_t i = 0; i < network.size(); ++i) {
    const LayerEntry& entry = network.entry(i);
    if (entry.spec.weights_of.empty()) continue;
    const LayerEntry& source = source_of(network, i);
    require(source.spec.weights_of.empty(), entry.spec,
            fmt::format("weights_of names \"{}\", which has those of \"{}\" itself; name that one", source.name,
                        source.spec.weights_of));
    require(entry.params.count > 0, entry.spec, "weights_of is for layers that have weights, and this one has none");
    require(source.layer->signature() == entry.layer->signature() && source.params.count == entry.params.count,
            entry.spec,
            fmt::format("weights_of names \"{}\", which is {}, and this is {}; they must be alike", source.name,
                        source.layer->signature(), entry.layer->signature()));
  }
}

std::vector<WeightCopy> weight_copies(const Network& network) {
  std::vector<WeightCopy> copies;
  for (std::size_t i = 0; i < network.size(); ++i)
    if (const LayerEntry& entry = network.entry(i); !entry.spec.weights_of.empty())
      copies.push_back({source_of(network, i).params, entry.params, entry.spec.every});
  return copies;
}

void fold_gradients(Backend& backend, const std::vector<WeightCopy>& copies, Span grads) {
  for (const WeightCopy& one : copies) {
    const Span own = span_at(grads, one.to);
    if (one.every == 0) backend.accumulate(own, span_at(grads, one.from));
    backend.fill(own, 0);
  }
}

void copy_weights(Backend& backend, const std::vector<WeightCopy>& copies, Span params, Copied which) {
  for (const WeightCopy& one : copies)
    if (which == Copied::all || one.every == 0) copy(backend, one, params);
}

void copy_weights_after(Backend& backend, const std::vector<WeightCopy>& copies, Span params, std::uint64_t updates) {
  for (const WeightCopy& one : copies)
    if (one.every == 0 || updates % static_cast<std::uint64_t>(one.every) == 0) copy(backend, one, params);
}

}  // namespace mrmf
