// A loss in a configuration: a word, or a list of them as a sum. Paths are within an entry of that list; defaults: Term
// below.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "kernels/errors.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

/// An entry of the list.
struct Term {
  LossKind kind = LossKind::mse;
  float weight = 1, delta = 1, smooth = 1, gamma = 0;
};

constexpr float kFocalGamma = 2;  // as the paper of the focal loss has it

// In the order of LossKind; the last two are cross-entropies with another default of gamma.
const std::vector<std::string>& loss_words() {
  static const std::vector<std::string> words{"mse",  "mae",   "huber",       "cross_entropy", "binary_cross_entropy",
                                              "dice", "focal", "binary_focal"};
  return words;
}

void set_kind(Term& term, std::size_t word) {
  const bool focal = word >= kLossKinds;
  term.kind = !focal               ? static_cast<LossKind>(word)
              : word == kLossKinds ? LossKind::cross_entropy
                                   : LossKind::binary_cross_entropy;
  if (focal && term.gamma == 0) term.gamma = kFocalGamma;
}

std::string word(LossKind kind) { return loss_words()[static_cast<std::size_t>(kind)]; }

}  // namespace

std::string expected_loss() {
  return expected_word(one_of(loss_words())) +
         ", or a list of them as a sum, such as [{ kind = \"cross_entropy\" }, { kind = \"dice\", weight = 0.5 }]";
}

namespace {

std::vector<Key<Term>> term_keys() {
  return {{"kind", expected_word(one_of(loss_words())), "loss",
           [](Term& term, const Value& value, const std::string& path) {
             set_kind(term, read_word(value, path, one_of(loss_words())));
           },
           [](const Term& term) { return quoted(word(term.kind)); }},
          make_key<Term>("weight", MRMF_FIELD(weight), above(0), "of this loss in the sum"),
          make_key<Term>("delta", MRMF_FIELD(delta), above(0), "huber: errors above it count linearly"),
          make_key<Term>("smooth", MRMF_FIELD(smooth), above(0), "dice: added to both sides of the fraction"),
          make_key<Term>("gamma", MRMF_FIELD(gamma), at_least(0),
                         "cross-entropies: the focal loss, in which what is sure counts less")};
}

Term read_term(const Value& value, const std::string& path) {
  Term term;
  if (value.kind == Value::Kind::text) {
    set_kind(term, read_word(value, path, one_of(loss_words())));
    return term;
  }
  if (value.kind != Value::Kind::table) refuse(value, path, expected_loss());
  if (value.find("kind") == nullptr)
    throw ConfigError(value.where + ": " + path + " has no kind; it must be " + expected_word(one_of(loss_words())));
  KeyLocations locations;
  read_table(value, path + ".", "", term_keys(), term, locations);
  for (const auto& [key, kind] : {std::pair("delta", LossKind::huber), std::pair("smooth", LossKind::dice)})
    if (value.find(key) != nullptr && term.kind != kind)
      throw ConfigError(value.where + ": " + path + "." + key + " belongs to " + word(kind) + ", and this is " +
                        word(term.kind) + "; remove it");
  const bool entropy = term.kind == LossKind::cross_entropy || term.kind == LossKind::binary_cross_entropy;
  if (value.find("gamma") != nullptr && !entropy)
    throw ConfigError(value.find("gamma")->where + ": " + path + ".gamma belongs to a cross-entropy, and this is " +
                      word(term.kind) + "; remove it");
  return term;
}

bool of_numbers(LossKind kind) { return kind == LossKind::mse || kind == LossKind::mae || kind == LossKind::huber; }

// Dice goes with either cross-entropy.
bool of_one_task(LossKind a, LossKind b) {
  if (of_numbers(a) || of_numbers(b)) return of_numbers(a) && of_numbers(b);
  return a == LossKind::dice || b == LossKind::dice;
}

}  // namespace

void read_loss(LossSettings& loss, const Value& value, const std::string& path) {
  const std::vector<Value> entries = read_list(value);
  if (entries.empty()) refuse(value, path, expected_loss());
  std::vector<LossKind> kinds;
  loss.weights = {};
  loss.gamma = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string at = value.kind == Value::Kind::list ? fmt::format("{}[{}]", path, i) : path;
    const Term term = read_term(entries[i], at);
    for (const LossKind earlier : kinds) {
      if (earlier == term.kind) throw ConfigError(entries[i].where + ": " + path + " has " + word(earlier) + " twice");
      if (!of_one_task(earlier, term.kind))
        throw ConfigError(fmt::format(
            "{}: {} adds {} to {}, which are of different tasks: mse, mae and huber are of numbers, cross_entropy of "
            "one class of several, binary_cross_entropy of yes or no per output, and dice of either of these two",
            entries[i].where, path, word(term.kind), word(earlier)));
    }
    kinds.push_back(term.kind);
    loss.weights[static_cast<std::size_t>(term.kind)] = term.weight;
    if (term.kind == LossKind::huber) loss.delta = term.delta;
    if (term.kind == LossKind::dice) loss.smooth = term.smooth;
    if (term.gamma > 0) loss.gamma = term.gamma;
  }
}

std::string write_loss(const LossSettings& loss) {
  std::vector<std::string> terms;
  for (std::size_t i = 0; i < kLossKinds; ++i) {
    if (!(loss.weights[i] > 0)) continue;
    const auto kind = static_cast<LossKind>(i);
    std::string term = "kind = " + quoted(loss_words()[i]);
    if (loss.weights[i] != 1) term += fmt::format(", weight = {}", loss.weights[i]);
    if (kind == LossKind::huber && loss.delta != 1) term += fmt::format(", delta = {}", loss.delta);
    if (kind == LossKind::dice && loss.smooth != 1) term += fmt::format(", smooth = {}", loss.smooth);
    if (kind != LossKind::dice && loss.gamma > 0) term += fmt::format(", gamma = {}", loss.gamma);
    terms.push_back(term);
  }
  const std::string plain = terms.size() == 1 ? "kind = " : "";
  if (!plain.empty() && terms.front().find(',') == std::string::npos) return terms.front().substr(plain.size());
  return fmt::format("[{{ {} }}]", fmt::join(terms, " }, { "));
}

}  // namespace mrmf
