// A TOML document as a tree of values that know where they were written, so that every later message can say so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mrmf {

struct Value {
  enum class Kind { boolean, integer, real, text, list, table };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;          ///< for a text; for an override also the value as typed
  std::vector<Value> items;  ///< of a list; of a table in the order of the file
  std::string key;           ///< inside a table
  std::string where;         ///< "config.toml:12" or "--set training.batch=256"

  const Value* find(const std::string& name) const;  ///< entry of a table, or null
};

/// Syntax errors are ConfigError "<origin>:<line>:<column>: ...".
Value parse_toml(const std::string& text, const std::string& origin);

/// Applies "section.key=value". The value is TOML; what is not TOML counts as text. Entries of a list are reached by
/// "section.list[0].key". Whether the key exists is found out later, when the tree is read.
void apply_override(Value& root, const std::string& setting);

/// The value as TOML on one line.
std::string render(const Value& value);
/// A TOML string literal.
std::string quoted(const std::string& text);

}  // namespace mrmf
