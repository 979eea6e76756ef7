// Key tables: a key is declared once (path, field, rule, meaning; key_rules.hpp). Reading it from a tree of TOML
// values, writing, checking and describing it follow from that, and so does the list of all keys that people and
// programs get.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "kernels/tensor.hpp"
#include "src/config/key_rules.hpp"
#include "src/config/toml.hpp"

/// The field of a key: MRMF_FIELD(training.batch) is a function from the structure to that member.
#define MRMF_FIELD(member) \
  [](auto& s) -> auto& { return s.member; }

namespace mrmf {

/// Where each key was set, for later checks.
using KeyLocations = std::map<std::string, std::string>;

/// ConfigError "<where>: <path> is <value>; it must be <expected>".
[[noreturn]] void refuse(const Value& value, const std::string& path, const std::string& expected);
/// ConfigError "<where>: unknown key '<path>'; did you mean '...'?". `known` are full paths.
[[noreturn]] void unknown_key(const Value& value, const std::string& path, const std::vector<std::string>& known);

/// ConfigError for a value in the place of a table. For a text, it says whether `known` has a name to give it to.
[[noreturn]] void no_table(const Value& value, const std::string& path, const std::vector<std::string>& known);

/// Types of values: their names in messages, reading and writing. "" is written for "not set".
std::string expected_number(bool integer, const Rule& rule);
std::string expected_word(const Rule& rule);
std::int64_t read_integer(const Value& value, const std::string& path, const Rule& rule);
double read_real(const Value& value, const std::string& path, const Rule& rule);
std::string read_text(const Value& value, const std::string& path, const Rule& rule);
std::size_t read_word(const Value& value, const std::string& path, const Rule& rule);  ///< its position in rule.words
bool read_boolean(const Value& value, const std::string& path);
Extent read_extent(const Value& value, const std::string& path, const Rule& rule);
/// Numbers, or texts, in a list or alone, each as a text; and a list of such texts, numbers without quotes.
std::vector<std::string> read_values(const Value& value, const std::string& path, const std::string& expected);
std::string write_values(const std::vector<std::string>& values);
/// The entries of a list; any other value counts as a list of one.
std::vector<Value> read_list(const Value& value);

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
std::string expected(const Rule& rule) {
  if constexpr (IsOptional<T>::value) {
    return expected<typename T::value_type>(rule);
  } else if constexpr (IsVector<T>::value) {
    return "a list, each " + expected<typename T::value_type>(rule);
  } else if constexpr (std::is_same_v<T, Extent>) {
    return "one to three integers such as [2] or [2, 2, 2], each at least 1";
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, bool>) {
    if (!rule.words.empty()) return expected_word(rule);
    return std::is_same_v<T, bool> ? "true or false" : "a text";
  } else {
    return expected_number(std::is_integral_v<T>, rule);
  }
}

template <class T>
void read(const Value& value, const std::string& path, const Rule& rule, T& target) {
  if constexpr (IsOptional<T>::value) {
    typename T::value_type inner{};
    read(value, path, rule, inner);
    target = inner;
  } else if constexpr (IsVector<T>::value) {
    target.clear();
    for (const Value& item : read_list(value)) {
      typename T::value_type inner{};
      read(item, path, rule, inner);
      target.push_back(inner);
    }
  } else if constexpr (std::is_same_v<T, Extent>) {
    target = read_extent(value, path, rule);
  } else if constexpr (std::is_same_v<T, std::string>) {
    target = read_text(value, path, rule);
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    if (rule.words.empty()) {
      target = static_cast<T>(read_boolean(value, path));
    } else {
      target = static_cast<T>(read_word(value, path, rule));
    }
  } else if constexpr (std::is_integral_v<T>) {
    Rule narrowed = rule;
    if (!std::in_range<T>(value.integer))
      narrowed.most = std::min(rule.most, static_cast<double>(std::numeric_limits<T>::max()));
    target = static_cast<T>(read_integer(value, path, narrowed));
  } else {
    target = static_cast<T>(read_real(value, path, rule));
  }
}

/// "[2]", "[1, 2]": without leading ones, but at least `axes` numbers.
std::string write_extent(const Extent& extent, int axes = 1);

template <class T>
std::string write(const T& value, const Rule& rule) {
  if constexpr (IsOptional<T>::value) {
    return value ? write(*value, rule) : "";
  } else if constexpr (IsVector<T>::value) {
    std::string text;
    for (const auto& item : value) text += (text.empty() ? "" : ", ") + write(item, rule);
    return value.empty() ? "" : "[" + text + "]";
  } else if constexpr (std::is_same_v<T, Extent>) {
    return write_extent(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value.empty() ? "" : quoted(value);
  } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
    if (rule.words.empty()) return value == T{} ? "false" : "true";
    return quoted(rule.words.at(static_cast<std::size_t>(value)));
  } else {
    return fmt::format("{}", value);  // the shortest text that reads back to the same number
  }
}

/// One option of the struct S.
template <class S>
struct Key {
  std::string path;      ///< relative to S's own table
  std::string expected;  ///< type and range in words
  std::string meaning;
  std::function<void(S&, const Value&, const std::string& full_path)> read;
  std::function<std::string(const S&)> write;
};

/// `field` maps an S (const or not) to a reference to the field.
template <class S, class Field>
Key<S> make_key(const std::string& path, Field field, const Rule& rule, const std::string& meaning) {
  using T = std::remove_cvref_t<decltype(field(std::declval<S&>()))>;
  return {path, expected<T>(rule), meaning,
          [=](S& s, const Value& value, const std::string& full) { read(value, full, rule, field(s)); },
          [=](const S& s) { return write(field(s), rule); }};
}

template <class S>
using Keys = std::vector<Key<S>>;

template <class S>
void KeyList<S>::add(Key<S> key) {
  keys_.push_back(std::move(key));
}

template <class S>
std::vector<std::string> paths(const std::vector<Key<S>>& keys, const std::string& prefix) {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const Key<S>& key : keys) result.push_back(prefix + key.path);
  return result;
}

/// Reads a table by its keys. `prefix` is the full path of S's table ("" or "model.layers[0]."); `inner` is the path
/// already walked inside it.
template <class S>
void read_table(const Value& table, const std::string& prefix, const std::string& inner,
                const std::vector<Key<S>>& keys, S& target, KeyLocations& locations) {
  for (const Value& value : table.items) {
    const std::string path = inner + value.key;
    bool known = false, section = false;
    for (const Key<S>& key : keys) {
      if (key.path == path) {
        key.read(target, value, prefix + path);
        locations[prefix + path] = value.where;
        known = true;
      }
      section = section || key.path.starts_with(path + ".");
    }
    if (known) continue;
    if (!section) unknown_key(value, prefix + path, paths(keys, prefix));
    if (value.kind != Value::Kind::table) no_table(value, prefix + path, paths(keys, prefix));
    read_table(value, prefix, path + ".", keys, target, locations);
  }
}

// All keys of the configuration as data: for `mrmf presets --keys` and for the shells' completion.

/// A key as people are told of it.
struct KeyDescription {
  std::string list;                ///< the list of tables that has it, such as "model.layers"; "" for most
  std::string path;                ///< "training.batch"; within its list, for a key of one
  std::vector<std::string> kinds;  ///< the layer kinds that have it; empty: all, or it is no layer's
  std::string expected;            ///< type and range in words
  std::vector<std::string> words;  ///< the texts that it takes, if only a few
  std::string standard;            ///< its default as TOML; "" when there is none
  std::string meaning;
};

/// In the order of writing and describing: first those of no list.
std::vector<KeyDescription> key_list();

/// key_list() as one JSON object: {"keys": [...]}.
std::string keys_json();

// Words of earlier versions: keys, and values of keys, that are called otherwise today or are gone. Configurations, and
// the files that runs wrote, are read with either; what is written has today's words.

/// Gives keys and values of earlier versions today's words. Returns a line for each, with where it stands and what it
/// is called now. ConfigError where a key is given under both names.
std::vector<std::string> rename_deprecated_keys(Value& root);

/// Takes away keys that are gone: runs wrote them out. ConfigError where one says something else than what is done
/// today. of_run: a finished run wrote the file, so what only its training did does not count.
void drop_gone_keys(Value& root, bool of_run);

/// Today's words for settings as runs write them: "section.key", and its value as TOML. Leaves out keys that are gone,
/// where they say what is done without them.
std::map<std::string, std::string> with_todays_words(const std::map<std::string, std::string>& settings);

/// Today's word for a value of such a key: "stem" for "front" of method.top. Others are returned as they are.
std::string todays_word(const std::string& key, const std::string& word);

// Errors about a configuration's keys, at the location where a key was set.

/// Where keys were set, by their paths ("data.files"); of one that was not, `origin` says which configuration it is.
struct KeyOrigin {
  const KeyLocations& locations;
  const std::string& origin;

  std::string of(const std::string& key) const {
    const auto found = locations.find(key);
    return found == locations.end() ? origin : found->second;
  }
  bool given(const std::string& key) const { return locations.contains(key); }
  [[noreturn]] void fail(const std::string& key, const std::string& message) const {
    throw ConfigError(of(key) + ": " + message);
  }
  void require(bool good, const std::string& key, const std::string& message) const {
    if (!good) fail(key, message);
  }
};

}  // namespace mrmf
