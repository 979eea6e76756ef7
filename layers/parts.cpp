#include "layers/parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/errors.hpp"
#include "layers/network.hpp"

namespace mrmf {
namespace {

bool among(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

std::size_t output_of_term(const std::string& name, const LossTerm& term, const std::string& what,
                           const std::vector<LayerSpec>& layers) {
  if (name == kInput) return 0;
  const auto found = std::ranges::find_if(layers, [&](const LayerSpec& layer) { return layer.name == name; });
  if (found == layers.end())
    throw ConfigError(
        fmt::format("training.terms: {} of {} is \"{}\", and no layer has that name; the layers are "
                    "listed by mrmf inspect",
                    what, term.name, name));
  return static_cast<std::size_t>(found - layers.begin()) + 1;
}

std::vector<std::size_t> turns_in(const PartSettings& settings, int epoch) {
  std::vector<std::size_t> turns;
  for (std::size_t turn = 0; turn < settings.turns.size(); ++turn)
    if (settings.turns[turn].in(epoch)) turns.push_back(turn);
  return turns;
}

Index steps_of(const PartSettings& settings, const std::vector<std::size_t>& turns) {
  Index steps = 0;
  for (const std::size_t turn : turns) steps += settings.turns[turn].steps;
  return steps;
}

// Turns are taken in a circle from the epoch on in which the set of them began.
int begin_of(const PartSettings& settings, int epoch) {
  int begin = 0;
  for (const Turn& turn : settings.turns)
    for (const int edge : {turn.since, turn.until.value_or(0)})
      if (edge <= epoch) begin = std::max(begin, edge);
  return begin;
}

}  // namespace

bool PartSettings::computes(std::size_t turn, const LossTerm& term) const {
  return turns.empty() || among(turns[turn].terms, term.name);
}

bool PartSettings::trains(std::size_t turn, const std::string& part) const {
  return turns.empty() || among(turns[turn].parts, part);
}

std::vector<TermInputs> inputs_of(const std::vector<LossTerm>& terms, const std::vector<LayerSpec>& layers) {
  std::vector<TermInputs> all;
  for (const LossTerm& term : terms) {
    TermInputs inputs{output_of_term(term.output, term, "the output", layers)};
    if (!term.target.empty()) inputs.target = output_of_term(term.target, term, "the target", layers);
    all.push_back(inputs);
  }
  return all;
}

std::vector<std::optional<std::size_t>> parts_of(const PartSettings& settings, const std::vector<LayerSpec>& layers) {
  std::vector<std::optional<std::size_t>> parts(layers.size());
  for (std::size_t part = 0; part < settings.parts.size(); ++part) {
    const std::string& own = settings.parts[part].name;
    for (const std::string& name : settings.parts[part].layers) {
      bool found = false;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        if (!names_layer(name, layers[i]) || !layers[i].weights_of.empty()) continue;
        found = true;
        if (parts[i] && *parts[i] != part)
          throw ConfigError(fmt::format("training.parts: the layer \"{}\" is in {} and in {}; leave it in one of them",
                                        layers[i].name, settings.parts[*parts[i]].name, own));
        parts[i] = part;
      }
      if (!found)
        throw ConfigError(
            fmt::format("training.parts: {} names \"{}\", which stands for no layer with weights of its "
                        "own; the layers are listed by mrmf inspect",
                        own, name));
    }
  }
  return parts;
}

namespace {

/// By layer, whether the gradient of a turn's terms reaches its output.
std::vector<bool> reached_in(const Network& network, std::size_t turn) {
  const PartSettings& settings = network.parts();
  std::vector<bool> reached(network.size() + 1, false);
  for (std::size_t i = 0; i < settings.terms.size(); ++i) {
    if (!settings.computes(turn, settings.terms[i])) continue;
    const TermInputs& inputs = network.term_inputs()[i];
    reached[inputs.output] = true;
    if (inputs.target && settings.terms[i].loss.task() == Task::regression) reached[*inputs.target] = true;
  }
  for (std::size_t i = network.size(); i-- > 0;) {
    const LayerKind kind = network.entry(i).kind;
    if (!reached[i + 1] || kind == LayerKind::stop_gradient || is_source(kind)) continue;
    for (const std::size_t output : network.wiring()[i]) reached[output] = true;
  }
  return reached;
}

/// ConfigError where a turn trains a part for terms that do not depend on its weights.
void require_turns(const Network& network, const std::vector<std::optional<std::size_t>>& parts) {
  const PartSettings& settings = network.parts();
  const auto owner = [&](std::size_t i) {
    const LayerSpec& spec = network.entry(i).spec;
    if (spec.weights_of.empty()) return i;
    const auto same = [&](const LayerEntry& entry) { return entry.spec.name == spec.weights_of; };
    return static_cast<std::size_t>(std::ranges::find_if(network.entries(), same) - network.entries().begin());
  };
  for (std::size_t turn = 0; turn < settings.turn_count(); ++turn) {
    const std::vector<bool> reached = reached_in(network, turn);
    std::vector<bool> trained(settings.parts.size(), false);
    for (std::size_t i = 0; i < network.size(); ++i)
      if (reached[i + 1] && network.entry(i).params.count > 0 && network.entry(i).spec.every == 0)
        if (const auto part = parts[owner(i)]) trained[*part] = true;
    for (std::size_t p = 0; p < settings.parts.size(); ++p)
      if (settings.trains(turn, settings.parts[p].name) && !trained[p])
        throw ConfigError(
            fmt::format("training.{}: no term {}depends on the weights of the part \"{}\"; add one that "
                        "does, or leave the part out",
                        settings.turns.empty() ? "parts" : fmt::format("turns[{}]", turn),
                        settings.turns.empty() ? "" : "of it ", settings.parts[p].name));
  }
}

}  // namespace

void require_terms(const Network& network) {
  const std::vector<LossTerm>& terms = network.parts().terms;
  std::vector<LayerSpec> specs;
  for (const LayerEntry& entry : network.entries()) specs.push_back(entry.spec);
  const std::vector<std::optional<std::size_t>> parts = parts_of(network.parts(), specs);
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!network.parts().parts.empty() && !parts[i] && specs[i].weights_of.empty() && network.entry(i).params.count > 0)
      throw ConfigError(fmt::format("training.parts: no part names the layer \"{}\", which has weights; add it to one",
                                    specs[i].name));
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const TermInputs& inputs = network.term_inputs()[i];
    if (!inputs.target) continue;
    const Shape output = network.output_numbered(inputs.output), target = network.output_numbered(*inputs.target);
    if (output.per_sample() != target.per_sample())
      throw ConfigError(
          fmt::format("training.terms: {} compares \"{}\" of {} with \"{}\" of {}; they must have as many "
                      "numbers: take a slice, or other layers",
                      terms[i].name, terms[i].output, to_string(output), terms[i].target, to_string(target)));
  }
  require_turns(network, parts);
  const std::vector<bool> serves = network.serving();
  for (std::size_t i = 0; i < network.size(); ++i)
    if (serves[i] && network.entry(i).kind == LayerKind::labels)
      throw ConfigError(
          fmt::format("model.layers: the network's output depends on {}, and nobody has labels where it is "
                      "used; let the list end with a layer that follows from the input",
                      network.entry(i).name));
}

std::size_t TurnOrder::at(int epoch, Index step, Index steps) const {
  if (settings_.turns.empty()) return 0;
  const std::vector<std::size_t> turns = turns_in(settings_, epoch);
  MRMF_CHECK(!turns.empty(), "an epoch without a turn");
  Index at = (Index{epoch} - begin_of(settings_, epoch)) * steps + step;
  at %= steps_of(settings_, turns);
  for (const std::size_t turn : turns)
    if ((at -= settings_.turns[turn].steps) < 0) return turn;
  return turns.back();
}

std::vector<Index> TurnOrder::before(int epoch, Index step, Index steps) const {
  std::vector<Index> had(settings_.turn_count());
  if (settings_.turns.empty()) {
    had[0] = Index{epoch} * steps + step;
    return had;
  }
  for (int begin = 0; begin <= epoch;) {
    int end = begin + 1;  // the first epoch with other turns, or the one after `epoch`
    while (end <= epoch && begin_of(settings_, end) == begin_of(settings_, begin)) ++end;
    const std::vector<std::size_t> turns = turns_in(settings_, begin);
    const Index circle = steps_of(settings_, turns);
    const Index taken = end <= epoch ? Index{end - begin} * steps : Index{epoch - begin} * steps + step;
    Index rest = taken % circle;
    for (const std::size_t turn : turns) {
      const Index own = settings_.turns[turn].steps;
      had[turn] += taken / circle * own + std::clamp<Index>(rest, 0, own);
      rest -= own;
    }
    begin = end;
  }
  return had;
}

}  // namespace mrmf
