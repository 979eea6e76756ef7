// The only file that sees toml++.
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "io/limits.hpp"
#include "kernels/check.hpp"
#include "src/config/config_value.hpp"

namespace mrmf {
namespace {

Value convert(const toml::node& node, const std::string& origin, toml::source_index line) {
  Value value;
  value.where = origin + ":" + std::to_string(line);
  if (const auto* table = node.as_table()) {
    // toml++ sorts by key; messages should come in the order of the file.
    std::vector<std::pair<toml::source_position, Value>> entries;
    for (const auto& [key, child] : *table) {
      Value entry = convert(child, origin, key.source().begin.line);
      entry.key = std::string(key.str());
      entries.emplace_back(key.source().begin, std::move(entry));
    }
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [position, entry] : entries) value.items.push_back(std::move(entry));
  } else if (const auto* array = node.as_array()) {
    value.kind = Value::Kind::list;
    for (const auto& child : *array) value.items.push_back(convert(child, origin, child.source().begin.line));
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = Value::Kind::boolean;
    value.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Value::Kind::integer;
    value.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Value::Kind::real;
    value.real = real->get();
  } else if (const auto* text = node.as_string()) {
    value.kind = Value::Kind::text;
    value.text = text->get();
  } else {  // dates and times: no key wants one, so its text is what a message can show
    value.kind = Value::Kind::text;
    std::ostringstream out;
    node.visit([&](const auto& any) { out << any; });
    value.text = out.str();
  }
  return value;
}

}  // namespace

Value parse_toml(const std::string& text, const std::string& origin) {
  require_shallow_toml(text, origin);
  try {
    const toml::table table = toml::parse(text);
    return convert(table, origin, 1);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw ConfigError(origin + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                      ": not valid TOML: " + std::string(error.description()));
  }
}

}  // namespace mrmf
