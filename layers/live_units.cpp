#include "layers/live_units.hpp"

#include <algorithm>

#include "layers/loss_terms.hpp"

namespace mrmf {
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

}  // namespace mrmf
