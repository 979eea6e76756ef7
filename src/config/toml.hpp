// Tree of values of a TOML document, each with the location where it was written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mrmf {

/// A value of the document. It knows where it was written, for later messages.
struct Value {
  enum class Kind { boolean, integer, real, text, list, table };
  Kind kind = Kind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;          ///< for a text; for an override also the value as typed
  std::vector<Value> items;  ///< items of a list; of a table in the order of the file
  std::string key;           ///< inside a table
  std::string where;         ///< "config.toml:12" or "--set training.batch=256"

  const Value* find(const std::string& name) const;  ///< entry of a table, or null
};

/// Syntax errors are ConfigError "<origin>:<line>:<column>: ...".
Value parse_toml(const std::string& text, const std::string& origin);

/// Applies "section.key=value". The value is TOML; anything else counts as text. "section.list[0].key" names an entry
/// of a list. Whether the key exists is checked later, when the tree is read.
void apply_override(Value& root, const std::string& setting);

/// The key of "section.key=", which takes a key away; none where the setting has a value.
std::optional<std::string> unset_key(const std::string& setting);
/// Takes the key away, by its path, and whatever it holds. False where it is not there.
bool unset(Value& root, const std::string& path);

/// The value as TOML on one line.
std::string render(const Value& value);
/// A TOML string literal.
std::string quoted(const std::string& text);
/// Whether a document may hold the text, which is UTF-8 then.
bool may_be_quoted(const std::string& text);
/// The text for people and comments, in one line: control characters, and bytes of what is not UTF-8, as "\xE9".
std::string in_one_line(const std::string& text);

}  // namespace mrmf
