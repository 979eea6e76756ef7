// A network of several parts: encoder, decoder, discriminator, a model and its inverse. It is one list of layers as any
// other network; parts are names for some of them. What it trains for is a sum of loss terms, each of one layer's
// output against another's, or against a number. Parts are trained together or in turns: a turn's steps compute some
// terms and update some parts.
//
// Four things in the list of layers make such networks: the kinds `labels` and `noise`, which read nothing of the
// network; `stop_gradient`, behind which a term trains nothing; and weights_of, by which a layer has the weights of
// another, or a frozen copy of them (layers/loss_terms_and_shared_weights.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/operations.hpp"
#include "layers/spec.hpp"

namespace mrmf {

/// A term of the loss: that of an output against a target, of as many numbers. Its gradient goes to both where both are
/// layers', and the loss is of numbers.
struct LossTerm {
  std::string name;         ///< unique; made from its position when empty ("term1")
  std::string output;       ///< a layer
  std::string target = "";  ///< another, or kInput; empty: the number `value`
  float value = 0;          ///< what every output should be
  LossSettings loss{};      ///< numbers, or yes or no (outputs are logits)
  float weight = 1;         ///< in the sum
  bool operator==(const LossTerm&) const = default;
};

/// What is trained in some of the steps.
struct Turn {
  std::vector<std::string> parts;  ///< which are updated; empty: all
  std::vector<std::string> terms;  ///< which are computed; empty: all
  int steps = 1;                   ///< so many, before the next turn's
  int since = 0;                   ///< epochs that are over before its first
  std::optional<int> until{};      ///< ...and when it has had its last; empty: the phase's end
  bool in(int epoch) const { return epoch >= since && (!until || epoch < *until); }
  bool operator==(const Turn&) const = default;
};

/// Layers under one name.
struct NamedLayers {
  std::string name;
  std::vector<std::string> layers;  ///< names as BottomSettings::layers has them
  bool operator==(const NamedLayers&) const = default;
};

struct PartSettings {
  std::vector<LossTerm> terms;     ///< empty: a network of one part
  std::vector<NamedLayers> parts;  ///< empty: all layers are one
  std::vector<Turn> turns;         ///< empty: all parts train for all terms, in every step
  bool any() const { return !terms.empty(); }
  std::size_t turn_count() const { return turns.empty() ? 1 : turns.size(); }
  bool computes(std::size_t turn, const LossTerm& term) const;
  bool trains(std::size_t turn, const std::string& part) const;
  bool operator==(const PartSettings&) const = default;
};

/// Terms that a model can keep apart: as many floats travel with the gradients (kReducedScalars) but that of their sum.
inline constexpr std::size_t kMostTerms = 15;

/// What a term reads, as Wiring counts outputs.
struct TermInputs {
  std::size_t output = 0;
  std::optional<std::size_t> target{};  ///< none: a number
};

/// ConfigError, which names the term, for a name that no layer has.
std::vector<TermInputs> inputs_of(const std::vector<LossTerm>& terms, const std::vector<LayerSpec>& layers);

/// The part that each layer belongs to; none: it is in no part, or there are none. Layers that have the weights of
/// others are in none. ConfigError where two parts name a layer, or a name stands for no layer.
std::vector<std::optional<std::size_t>> parts_of(const PartSettings& settings, const std::vector<LayerSpec>& layers);

class Network;
/// ConfigError, which names the term or the layer: an output and its target have different numbers of values, or there
/// are parts and a layer with weights is in none.
void require_terms(const Network& network);

/// Which turn's a step is, and how many steps turns have had before it: functions of the position in the phase.
class TurnOrder {
 public:
  explicit TurnOrder(const PartSettings& settings) : settings_(settings) {}
  /// The turn of step `step` of an epoch that has `steps`.
  std::size_t at(int epoch, Index step, Index steps) const;
  /// Steps before that one, in all turns for which `counts` says so.
  template <class Counts>
  Index before(int epoch, Index step, Index steps, const Counts& counts) const {
    Index sum = 0;
    const std::vector<Index> had = before(epoch, step, steps);
    for (std::size_t turn = 0; turn < had.size(); ++turn)
      if (counts(turn)) sum += had[turn];
    return sum;
  }

 private:
  std::vector<Index> before(int epoch, Index step, Index steps) const;
  const PartSettings& settings_;
};

}  // namespace mrmf
