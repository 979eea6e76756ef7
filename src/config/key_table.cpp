#include "src/config/key_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "src/config/config.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

bool inside(double x, const Rule& rule) {
  const bool above_least = rule.open_least ? x > rule.least : x >= rule.least;
  const bool below_most = rule.open_most ? x < rule.most : x <= rule.most;
  return above_least && below_most;  // false for NaN
}

std::string parent_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot + 1);
}

// The names one level below `parent` ("" or "section.").
std::vector<std::string> children(const std::string& parent, const std::vector<std::string>& known) {
  std::set<std::string> names;
  for (const std::string& path : known) {
    if (path.starts_with(parent))
      names.insert(path.substr(parent.size(), path.find('.', parent.size()) - parent.size()));
  }
  return {names.begin(), names.end()};
}

bool has(const std::vector<std::string>& known, const std::string& path) {
  return std::find(known.begin(), known.end(), path) != known.end();
}

// A key that others call by this name, beside it or elsewhere; "" where there is none.
std::string by_another_name(const std::string& parent, const std::string& name, const std::vector<std::string>& known) {
  static const std::map<std::string, std::string> ours{{"lr", "training.optimizer.learning_rate"},
                                                       {"scheduler", "training.optimizer.rule"},
                                                       {"lr_scheduler", "training.optimizer.rule"},
                                                       {"schedule", "training.optimizer.rule"},
                                                       {"wd", "training.optimizer.weight_decay"},
                                                       {"batch_size", "training.batch"},
                                                       {"num_epochs", "training.epochs"},
                                                       {"max_epochs", "training.epochs"},
                                                       {"criterion", "training.loss"},
                                                       {"loss_fn", "training.loss"},
                                                       {"output", "run.folder"},
                                                       {"output_dir", "run.folder"},
                                                       {"out_dir", "run.folder"},
                                                       {"gpu", "run.device"},
                                                       {"cuda", "run.device"},
                                                       {"num_threads", "run.threads"}};
  const auto found = ours.find(name);
  if (found == ours.end()) return "";
  const std::string& key = found->second;
  const std::string beside = parent + key.substr(parent_of(key).size());
  return has(known, beside) ? beside : has(known, key) ? key : "";
}

// A similar name beside it, else what others call so, else a key of the same name elsewhere, else a similar path.
std::string suggestion(const std::string& path, const std::vector<std::string>& known) {
  const std::string parent = parent_of(path), name = path.substr(parent.size());
  const std::string neighbour = nearest(name, children(parent, known));
  if (!neighbour.empty()) return parent + neighbour;
  if (const std::string ours = by_another_name(parent, name, known); !ours.empty()) return ours;
  const auto same = std::find_if(known.begin(), known.end(), [&](const std::string& k) {
    return k.substr(parent_of(k).size()) == name && k.substr(0, k.find('.')) == path.substr(0, path.find('.'));
  });
  if (same != known.end()) return *same;
  const auto elsewhere = std::find_if(known.begin(), known.end(),
                                      [&](const std::string& k) { return k.substr(parent_of(k).size()) == name; });
  return elsewhere != known.end() ? *elsewhere : nearest(path, known);
}

std::string join(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

}  // namespace

Rule at_least(double least) {
  Rule rule;
  rule.least = least;
  return rule;
}
Rule within(double least, double most) {
  Rule rule = at_least(least);
  rule.most = most;
  return rule;
}
Rule above(double least) {
  Rule rule = at_least(least);
  rule.open_least = true;
  return rule;
}
Rule above_to(double least, double most) {
  Rule rule = above(least);
  rule.most = most;
  return rule;
}
Rule from_below(double least, double most) {
  Rule rule = at_least(least);
  rule.most = most;
  rule.open_most = true;
  return rule;
}
Rule one_of(std::vector<std::string> words) {
  Rule rule;
  rule.words = std::move(words);
  return rule;
}

void refuse(const Value& value, const std::string& path, const std::string& expected) {
  throw ConfigError(value.where + ": " + path + " is " + render(value) + "; it must be " + expected);
}

void unknown_key(const Value& value, const std::string& path, const std::vector<std::string>& known) {
  std::string message = value.where + ": unknown key '" + path + "'";
  const std::string meant = suggestion(path, known);
  if (!meant.empty()) throw ConfigError(message + "; did you mean '" + meant + "'?");
  const std::string parent = parent_of(path);
  const std::string section = parent.empty() ? "the sections are " : "there are " + parent + "{";
  throw ConfigError(message + "; " + section + join(children(parent, known)) + (parent.empty() ? "" : "}"));
}

void no_table(const Value& value, const std::string& path, const std::vector<std::string>& known) {
  const std::string name = path + ".name";
  const bool named = value.kind == Value::Kind::text && has(known, name);
  refuse(value, path, "a table of settings" + (named ? "; write " + name + " = " + render(value) : ""));
}

std::string expected_number(bool integer, const Rule& rule) {
  std::string text = integer ? "an integer" : "a number";
  const bool low = rule.least > -1e300, high = rule.most < 1e300;
  if (low) text += fmt::format(" {} {}", rule.open_least ? "above" : "of at least", rule.least);
  if (high) text += fmt::format("{}{} {}", low ? " and " : " ", rule.open_most ? "below" : "at most", rule.most);
  return text;
}

std::string expected_word(const Rule& rule) { return "one of " + join(rule.words); }

std::int64_t read_integer(const Value& value, const std::string& path, const Rule& rule) {
  const bool good = value.kind == Value::Kind::integer && inside(static_cast<double>(value.integer), rule);
  if (!good) refuse(value, path, expected_number(true, rule));
  return value.integer;
}

double read_real(const Value& value, const std::string& path, const Rule& rule) {
  const bool integer = value.kind == Value::Kind::integer;
  const double x = integer ? static_cast<double>(value.integer) : value.real;
  const bool good = (integer || value.kind == Value::Kind::real) && std::isfinite(x) && inside(x, rule);
  if (!good) refuse(value, path, expected_number(false, rule));
  return x;
}

std::string read_text(const Value& value, const std::string& path, const Rule& rule) {
  if (!rule.words.empty()) return rule.words[read_word(value, path, rule)];
  const bool typed = value.kind != Value::Kind::table && value.kind != Value::Kind::list && !value.text.empty();
  if (value.kind != Value::Kind::text && !typed) refuse(value, path, "a text in quotes");
  return value.text;
}

std::size_t read_word(const Value& value, const std::string& path, const Rule& rule) {
  const auto found = std::find(rule.words.begin(), rule.words.end(), value.text);
  if (value.kind == Value::Kind::text && found != rule.words.end()) {
    return static_cast<std::size_t>(found - rule.words.begin());
  }
  refuse(value, path, expected_word(rule) + did_you_mean(value.text, rule.words, '"'));
}

std::vector<std::string> read_values(const Value& value, const std::string& path, const std::string& expected) {
  std::vector<std::string> texts;
  for (const Value& item : read_list(value)) {
    switch (item.kind) {
      case Value::Kind::integer: texts.push_back(fmt::format("{}", item.integer)); break;
      case Value::Kind::real: texts.push_back(fmt::format("{}", item.real)); break;
      case Value::Kind::text: texts.push_back(item.text); break;
      case Value::Kind::boolean: texts.emplace_back(item.boolean ? "1" : "0"); break;  // as files keep them
      default: refuse(value, path, expected);
    }
  }
  if (texts.empty()) refuse(value, path, expected);
  return texts;
}

std::string write_values(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    double number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    // Only as TOML writes numbers: "05" and "1." stay texts.
    const bool is_number = error == std::errc{} && end == value.data() + value.size() && std::isfinite(number) &&
                           value == fmt::format("{}", number);
    text += (text.empty() ? "" : ", ") + (is_number ? value : quoted(value));
  }
  return values.empty() ? "" : "[" + text + "]";
}

bool read_boolean(const Value& value, const std::string& path) {
  if (value.kind != Value::Kind::boolean) refuse(value, path, "true or false");
  return value.boolean;
}

Extent read_extent(const Value& value, const std::string& path, const Rule& rule) {
  const std::vector<Value> items = read_list(value);
  Extent extent{1, 1, 1};
  bool good = !items.empty() && items.size() <= extent.size();
  for (std::size_t i = 0; good && i < items.size(); ++i) {
    // 2^20 elements per axis are far beyond any sample and keep products in range.
    good = items[i].kind == Value::Kind::integer && inside(static_cast<double>(items[i].integer), rule) &&
           items[i].integer <= (1 << 20);
    extent[extent.size() - items.size() + i] = items[i].integer;
  }
  if (!good) refuse(value, path, expected<Extent>(rule));
  return extent;
}

std::vector<Value> read_list(const Value& value) {
  return value.kind == Value::Kind::list ? value.items : std::vector<Value>{value};
}

std::string write_extent(const Extent& extent, int axes) {
  const std::size_t last = extent.size() - static_cast<std::size_t>(std::max(axes, 1));
  std::size_t first = 0;
  while (first < last && extent[first] == 1) ++first;
  return fmt::format("[{}]", fmt::join(extent.begin() + static_cast<std::ptrdiff_t>(first), extent.end(), ", "));
}

// How a declaration becomes a key.

namespace {

/// A key of a struct within another, as one of that.
template <class S, class Inner>
Key<S> lift(const std::string& table, Inner S::*inner, Key<Inner> key) {
  return {table + key.path, std::move(key.expected), std::move(key.meaning),
          [inner, read = std::move(key.read)](S& s, const Value& value, const std::string& path) {
            read(s.*inner, value, path);
          },
          [inner, write = std::move(key.write)](const S& s) { return write(s.*inner); }};
}

template <class S>
Keys<S> all_keys() {
  Keys<S> keys;
  KeyList<S> list(keys);
  list_keys(list);
  return keys;
}

}  // namespace

template <class S>
template <class T>
void KeyList<S>::add(const std::string& path, T S::*field, const Rule& rule, const std::string& meaning) {
  add(make_key<S>(
      path, [field](auto& s) -> auto& { return s.*field; }, rule, meaning));
}

template <class S>
template <class Inner, class T>
void KeyList<S>::add(const std::string& path, Inner S::*inner, T Inner::*field, const Rule& rule,
                     const std::string& meaning) {
  add(make_key<S>(
      path, [ inner, field ](auto& s) -> auto& { return s.*inner.*field; }, rule, meaning));
}

template <class S>
template <class Inner>
void KeyList<S>::add_table(const std::string& table, Inner S::*inner, void (*list)(KeyList<Inner>&)) {
  Keys<Inner> keys;
  KeyList<Inner> of_inner(keys);
  list(of_inner);
  for (Key<Inner>& key : keys) add(lift(table, inner, std::move(key)));
}

Keys<Config> config_keys() { return all_keys<Config>(); }
Keys<PartConfig> part_keys() { return all_keys<PartConfig>(); }
Keys<StageOverride> stage_keys() { return all_keys<StageOverride>(); }

// All keys as data.

namespace {

// What expected_word() lists. Some keys say behind it what else they take.
std::vector<std::string> words_in(const std::string& expected) {
  constexpr std::string_view head = "one of ";
  std::vector<std::string> words;
  if (!expected.starts_with(head)) return words;
  std::istringstream rest(expected.substr(head.size()));
  for (std::string word; std::getline(rest, word, ',') && word.find(' ', 1) == std::string::npos;)
    words.push_back(word.starts_with(' ') ? word.substr(1) : word);
  return words;
}

template <class S>
KeyDescription description(const std::string& list, const Key<S>& key, const std::string& standard) {
  return {list, key.path, {}, key.expected, words_in(key.expected), standard, key.meaning};
}

std::string describe(const KeyDescription& key) {
  const bool said = key.standard.empty() || key.meaning.find("unless set") != std::string::npos;
  return fmt::format("  {}{}\n      {}{}\n      {}\n", key.path,
                     key.kinds.empty() ? "" : fmt::format("  ({})", fmt::join(key.kinds, ", ")), key.expected,
                     said ? "" : "; " + key.standard + " unless set", key.meaning);
}

}  // namespace

std::vector<KeyDescription> key_list() {
  const Config standard;
  std::vector<KeyDescription> all;
  for (const Key<Config>& key : config_keys()) all.push_back(description("", key, key.write(standard)));
  for (const LayerKey& entry : layer_keys()) {
    all.push_back(description("model.layers", entry.key, entry.required ? "" : entry.key.write(LayerSpec{})));
    if (entry.kinds.size() == std::size(kLayerKinds)) continue;
    for (const LayerKind kind : entry.kinds) all.back().kinds.push_back(to_string(kind));
  }
  for (const Key<LossTerm>& key : loss_term_keys()) all.push_back(description("training.terms", key, ""));
  for (const Key<PartConfig>& key : part_keys()) all.push_back(description("training.parts", key, ""));
  for (const Key<Turn>& key : turn_keys()) all.push_back(description("training.turns", key, ""));
  for (const Key<StageOverride>& key : stage_keys()) all.push_back(description("method.stages", key, ""));
  return all;
}

std::string describe_keys() {
  std::string text, section;
  for (const KeyDescription& key : key_list()) {
    const std::string own = key.list.empty() ? key.path.substr(0, key.path.find('.')) : "[" + key.list + "]";
    if (own != section) text += (text.empty() ? "[" : "\n[") + own + "]\n";
    section = own;
    text += describe(key);
  }
  return text;
}

std::string keys_json() {
  nlohmann::ordered_json keys = nlohmann::ordered_json::array();
  for (const KeyDescription& key : key_list()) {
    nlohmann::ordered_json entry{{"key", key.path}, {"expected", key.expected}, {"meaning", key.meaning}};
    if (!key.list.empty()) entry["list"] = key.list;
    if (!key.kinds.empty()) entry["layers"] = key.kinds;
    if (!key.words.empty()) entry["words"] = key.words;
    entry["default"] = key.standard.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(key.standard);
    keys.push_back(std::move(entry));
  }
  return nlohmann::ordered_json{{"keys", keys}}.dump(2) + "\n";
}

}  // namespace mrmf
