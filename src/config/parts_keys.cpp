// Keys of networks of several parts. Paths are within an entry of [[training.terms]] or [[training.turns]]; defaults:
// LossTerm and Turn in layers/parts.hpp. Keys of [[training.parts]] are in training_config.hpp.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

constexpr const char* kTarget = "the name of a layer, \"input\", or a number";

Key<LossTerm> target_key() {
  return {
      "target", kTarget,
      "what the output should be: another layer's output, the network's input, or one number for all; a gradient "
      "goes to that layer, too, unless it is behind a stop_gradient",
      [](LossTerm& term, const Value& value, const std::string& path) {
        term.target.clear();
        if (value.kind == Value::Kind::text && !value.text.empty())
          term.target = value.text;
        else if (value.kind == Value::Kind::text)
          refuse(value, path, kTarget);
        else
          term.value = static_cast<float>(read_real(value, path, {}));
      },
      [](const LossTerm& term) { return term.target.empty() ? fmt::format("{}", term.value) : quoted(term.target); }};
}

Key<LossTerm> loss_key() {
  return {"loss", expected_loss(), "mse, mae or huber of numbers, or binary_cross_entropy of logits",
          [](LossTerm& term, const Value& value, const std::string& path) { read_loss(term.loss, value, path); },
          [](const LossTerm& term) { return write_loss(term.loss); }};
}

template <class S>
std::string table_of(const S& s, const std::vector<Key<S>>& keys) {
  std::string text;
  for (const Key<S>& key : keys)
    if (const std::string value = key.write(s); !value.empty())
      text += (text.empty() ? "" : ", ") + key.path + " = " + value;
  return "  { " + text + " },\n";
}

/// A list of tables as one key, each of which must have `needed`.
template <class S, class List>
Key<TrainingConfig> list_key(const std::string& path, List list, std::vector<Key<S>> (*keys)(),
                             const std::vector<std::string>& needed, const std::string& meaning) {
  Key<TrainingConfig> key;
  key.path = path;
  key.expected = "a list of tables";
  key.meaning = meaning;
  key.read = [=](TrainingConfig& training, const Value& value, const std::string& full) {
    list(training).clear();
    if (value.kind != Value::Kind::list) refuse(value, full, "a list of tables, [[" + full + "]]");
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      const Value& entry = value.items[i];
      const std::string at = fmt::format("{}[{}]", full, i);
      if (entry.kind != Value::Kind::table) refuse(entry, at, "a table");
      S one;
      KeyLocations locations;
      read_table(entry, at + ".", "", keys(), one, locations);
      for (const std::string& name : needed)
        if (entry.find(name) == nullptr) throw ConfigError(entry.where + ": " + at + " has no " + name + "; give it");
      list(training).push_back(std::move(one));
    }
  };
  key.write = [=](const TrainingConfig& training) {
    std::string text;
    for (const S& one : list(training)) text += table_of(one, keys());
    return text.empty() ? "" : "[\n" + text + "]";
  };
  return key;
}

template <class S>
std::vector<std::string> names_of(const std::vector<S>& all) {
  std::vector<std::string> names;
  for (const S& one : all) names.push_back(one.name);
  return names;
}

void check_terms(const std::vector<LossTerm>& terms, const KeyOrigin& rules) {
  const std::string key = "training.terms";
  rules.require(terms.size() <= kMostTerms, key,
                fmt::format("{} has {} terms; at most {} are kept apart", key, terms.size(), kMostTerms));
  std::set<std::string> names;
  for (const LossTerm& term : terms) {
    rules.require(names.insert(term.name).second, key, key + " has two terms named " + quoted(term.name));
    rules.require(
        term.output != kInput, key,
        fmt::format("{}: the output of {} is the network's input, which nothing trains; name a layer", key, term.name));
    rules.require(term.output != term.target, key,
                  fmt::format("{}: {} compares {} with itself", key, term.name, quoted(term.output)));
    const Task task = term.loss.task();
    rules.require(task != Task::classes && !(term.loss.weight(LossKind::dice) > 0), key,
                  fmt::format("{}: the loss of {} is of classes; a term takes mse, mae, huber or binary_cross_entropy",
                              key, term.name));
    rules.require(
        task != Task::binary || !term.target.empty() || (term.value >= 0 && term.value <= 1), key,
        fmt::format("{}: the target of {} is {}; of yes or no it is from 0 to 1", key, term.name, term.value));
  }
}

void check_names(const std::vector<std::string>& named, const std::vector<std::string>& known, const std::string& what,
                 std::size_t turn, const KeyOrigin& rules) {
  for (const std::string& name : named)
    rules.require(std::ranges::find(known, name) != known.end(), "training.turns",
                  fmt::format("training.turns[{}] names {}, which is no {}{} ({})", turn, quoted(name), what,
                              did_you_mean(name, known, '"'), fmt::join(known, ", ")));
}

void check_turns(const Config& config, const KeyOrigin& rules) {
  const PartsConfig& parts = config.training.parts;
  const std::string key = "training.turns";
  for (std::size_t i = 0; i < parts.turns.size(); ++i) {
    const Turn& turn = parts.turns[i];
    check_names(turn.terms, names_of(parts.terms), "term", i, rules);
    check_names(turn.parts, names_of(parts.parts), "part", i, rules);
    rules.require(!turn.until || *turn.until > turn.since, key,
                  fmt::format("{}[{}] is over before epoch {} and begins after it; let `until` be larger than `since`",
                              key, i, turn.until.value_or(0) + 1));
  }
  const auto nobody = [&](int epoch) {
    return std::ranges::none_of(parts.turns, [&](const Turn& turn) { return turn.in(epoch); });
  };
  std::vector<int> begins{0};
  for (const Turn& turn : parts.turns)
    if (turn.until) begins.push_back(*turn.until);
  for (const int epoch : begins)
    rules.require(parts.turns.empty() || epoch >= last_epochs(config) || !nobody(epoch), key,
                  fmt::format("{}: it is nobody's turn in epoch {}; change `since` or `until`", key, epoch + 1));
}

void check_parts(const Config& config, const KeyOrigin& rules) {
  const PartsConfig& parts = config.training.parts;
  const std::string key = "training.parts";
  std::set<std::string> names;
  for (const PartConfig& part : parts.parts) {
    rules.require(names.insert(part.name).second, key, key + " has two parts named " + quoted(part.name));
    rules.require(!part.layers.empty(), key, key + ": " + part.name + " names no layers");
    const bool adam = part.settings(config.training.optimizer).name == OptimizerKind::adam ||
                      part.settings(config.training.optimizer).name == OptimizerKind::adamw;
    const OptimizerKind common = config.training.optimizer.name;
    rules.require(!adam || common == OptimizerKind::adam || common == OptimizerKind::adamw, key,
                  fmt::format("{}: {} has Adam, which keeps more than {}; set training.optimizer.name to \"adam\", and "
                              "give {} to the other parts",
                              key, part.name, to_string(common), to_string(common)));
  }
}

// What networks of several parts do not go with.
void check_rest(const Config& config, const KeyOrigin& rules) {
  const std::string why = "training.terms: a network of several parts ", key = "training.terms";
  const TrainingConfig& training = config.training;
  rules.require(config.method.name == MethodName::baseline, key,
                why + "trains at one resolution; set method.name = \"baseline\"");
  rules.require(config.run.device != Device::cuda, key, why + "trains on the CPU; set run.device = \"cpu\"");
  rules.require(std::ranges::all_of(config.run.grid, [](const Extent& grid) { return product(grid) == 1; }), key,
                why + "is not cut over ranks; remove run.grid");
  rules.require(!config.data.patch.any(), key, why + "takes whole samples; remove data.patch");
  rules.require(training.precise_batch_norm == 0, key,
                why + "does not go with training.precise_batch_norm; set it to 0");
  rules.require(!training.update_in_place, key,
                why + "has parts that share weights or wait for their turn; set training.update_in_place = false");
  const std::optional<Communication>& own = config.method.finetune.communication;  // the baseline takes it, too
  rules.require(training.sums.adds_plainly() && own.value_or(Communication::fp32) == Communication::fp32, key,
                why + "goes with training.communication = \"fp32\" and shared momenta alone; use these");
}

}  // namespace

OptimizerSettings PartConfig::settings(const OptimizerSettings& common) const {
  OptimizerSettings own = common;
  own.name = optimizer.value_or(common.name);
  if (own.name == OptimizerKind::lion && common.name != OptimizerKind::lion) own.beta2 = kLionBeta2;
  own.learning_rate = learning_rate.value_or(common.learning_rate);
  own.momentum = momentum.value_or(common.momentum);
  own.beta1 = beta1.value_or(common.beta1);
  own.beta2 = beta2.value_or(own.beta2);
  own.epsilon = epsilon.value_or(common.epsilon);
  own.weight_decay = weight_decay.value_or(common.weight_decay);
  return own;
}

PartSettings PartsConfig::network() const {
  PartSettings settings{terms, {}, turns};
  for (const PartConfig& part : parts) settings.parts.push_back({part.name, part.layers});
  return settings;
}

Keys<LossTerm> loss_term_keys() {
  return {make_key<LossTerm>("name", MRMF_FIELD(name), {}, "unique; made from its position unless set"),
          make_key<LossTerm>("output", MRMF_FIELD(output), {}, "the layer whose output it is of"), target_key(),
          loss_key(),
          make_key<LossTerm>("weight", MRMF_FIELD(weight), above(0), "in the sum of all terms; 1 unless set")};
}

Keys<Turn> turn_keys() {
  return {
      make_key<Turn>("parts", MRMF_FIELD(parts), {}, "names of the parts that are updated; all unless set"),
      make_key<Turn>("terms", MRMF_FIELD(terms), {}, "names of the terms that are computed; all unless set"),
      make_key<Turn>("steps", MRMF_FIELD(steps), within(1, kMostSteps), "steps before the next turn's; 1 unless set"),
      make_key<Turn>("since", MRMF_FIELD(since), within(0, kMostSteps),
                     "it has its turns when so many epochs are over; 0 unless set"),
      make_key<Turn>("until", MRMF_FIELD(until), within(1, kMostSteps),
                     "and no more when so many are; to the end unless set")};
}

void add_parts_keys(KeyList<TrainingConfig>& keys) {
  keys.add(list_key<LossTerm>("terms", MRMF_FIELD(parts.terms), loss_term_keys, {"output", "target", "loss"},
                              "what a network of several parts trains for, as [[training.terms]]: the sum of losses "
                              "between layers; training.loss is then what validation measures"));
  keys.add(list_key<PartConfig>("parts", MRMF_FIELD(parts.parts), part_keys, {"name", "layers"},
                                "its parts, as [[training.parts]]: layers, and what their optimizer has of its own"));
  keys.add(
      list_key<Turn>("turns", MRMF_FIELD(parts.turns), turn_keys, {},
                     "who trains when, as [[training.turns]]: one turn's steps after the other's, in a circle; all "
                     "parts together unless set"));
}

void name_terms(std::vector<LossTerm>& terms) {
  for (std::size_t i = 0; i < terms.size(); ++i)
    if (terms[i].name.empty()) terms[i].name = fmt::format("term{}", i + 1);
}

void complete_parts(Config& config, const KeyLocations& locations, const std::string& origin) {
  const KeyOrigin rules{locations, origin};
  PartsConfig& parts = config.training.parts;
  if (parts.terms.empty()) {
    for (const LayerSpec& layer : config.model.layers)
      rules.require(!is_source(layer.kind) && layer.weights_of.empty(), "model.layers",
                    fmt::format("the layer {} is for networks of several parts, and there are no [[training.terms]]; "
                                "give these, or remove it",
                                quoted(layer.name)));
    rules.require(parts.parts.empty(), "training.parts",
                  "training.parts belong to a network with [[training.terms]], and there are none; give them");
    rules.require(parts.turns.empty(), "training.turns",
                  "training.turns belong to a network with [[training.terms]], and there are none; give them");
    return;
  }
  check_terms(parts.terms, rules);
  check_parts(config, rules);
  check_turns(config, rules);
  check_rest(config, rules);
  try {
    parts_of(parts.network(), config.model.layers);
  } catch (const ConfigError& error) {
    rules.require(false, "training.parts", error.what());
  }
}

}  // namespace mrmf
