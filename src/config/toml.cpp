// Conversion from TOML text to the tree of values, overrides into it, and values back to text. Only this file sees
// toml++.
#include "src/config/toml.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

Value convert(const toml::node& node, const std::string& origin, toml::source_index line) {
  Value value;
  value.where = origin + ":" + std::to_string(line);
  if (const auto* table = node.as_table()) {
    // toml++ sorts by key, but messages should come in the order of the file.
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
  } else {  // dates and times: no key wants one, so a message can only show its text
    value.kind = Value::Kind::text;
    std::ostringstream out;
    node.visit([&](const auto& any) { out << any; });
    value.text = out.str();
  }
  return value;
}

void set_where(Value& value, const std::string& where) {
  value.where = where;
  for (Value& item : value.items) set_where(item, where);
}

Value override_value(const std::string& typed) {
  Value value;
  try {
    value = parse_toml("value = " + typed, "").items.at(0);
  } catch (const ConfigError&) {
    value.kind = Value::Kind::text;  // a bare word
  }
  if (value.kind != Value::Kind::text) value.text = typed;  // lets `--set run.folder=7` mean the text "7"
  if (value.kind == Value::Kind::text && value.text.empty() && typed != "\"\"" && typed != "''") value.text = typed;
  return value;
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Value& entry(Value& table, const std::string& key, const std::string& where) {
  if (table.kind != Value::Kind::table) {
    throw ConfigError(where + ": " + render(table) + " (" + table.where + ") holds no keys");
  }
  for (Value& item : table.items) {
    if (item.key == key) return item;
  }
  Value fresh;
  fresh.key = key;
  fresh.where = where;
  table.items.push_back(fresh);
  return table.items.back();
}

// "layers[2]" is entry 2 of the list "layers".
Value& step(Value& table, const std::string& part, const std::string& where) {
  const std::size_t bracket = part.find('[');
  Value& found = entry(table, part.substr(0, bracket), where);
  if (bracket == std::string::npos) return found;
  const std::string digits = part.substr(bracket + 1, part.size() - bracket - 2);
  const bool number = !digits.empty() && digits.size() < 6 && part.back() == ']' &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  if (!number) throw ConfigError(where + ": '" + part + "' is not of the form list[number]");
  const std::size_t index = std::stoul(digits);
  if (found.kind != Value::Kind::list || index >= found.items.size()) {
    const std::size_t count = found.kind == Value::Kind::list ? found.items.size() : 0;
    throw ConfigError(fmt::format("{}: '{}' has {} entries, counted from 0", where, part.substr(0, bracket), count));
  }
  return found.items[index];
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

const Value* Value::find(const std::string& name) const {
  if (kind != Kind::table) return nullptr;
  for (const Value& item : items) {
    if (item.key == name) return &item;
  }
  return nullptr;
}

void apply_override(Value& root, const std::string& setting) {
  const std::string where = "--set " + setting;
  require_shallow_toml(setting, "--set " + setting.substr(0, 60) + (setting.size() > 60 ? "..." : ""));
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(where + ": expected section.key=value, such as training.batch=256");
  }
  const std::size_t last = setting.find_last_not_of(' ', equals - 1);
  Value* target = &root;
  for (const std::string& part : split(setting.substr(0, last + 1))) target = &step(*target, part, where);
  const std::string key = target->key;
  *target = override_value(setting.substr(equals + 1));
  target->key = key;
  set_where(*target, where);
}

std::optional<std::string> unset_key(const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0 || setting.find_first_not_of(' ', equals + 1) != std::string::npos)
    return {};
  const std::size_t last = setting.find_last_not_of(' ', equals - 1);
  return last == std::string::npos ? std::nullopt : std::optional(setting.substr(0, last + 1));
}

bool unset(Value& root, const std::string& path) {
  Value* table = &root;
  const std::vector<std::string> parts = split(path);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto found = std::ranges::find(table->items, parts[i], &Value::key);
    if (table->kind != Value::Kind::table || found == table->items.end()) return false;
    table = &*found;
  }
  return table->kind == Value::Kind::table &&
         std::erase_if(table->items, [&](const Value& item) { return item.key == parts.back(); }) > 0;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

bool may_be_quoted(const std::string& text) {
  try {
    parse_toml("x = " + quoted(text), "");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

std::string in_one_line(const std::string& text) {
  const bool valid = may_be_quoted(text);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool shown = byte >= 0x20 && byte != 0x7f && (valid || byte < 0x80);
    out += shown ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned>(byte));
  }
  return out;
}

std::string render(const Value& value) {
  const auto joined = [&] {
    std::string text;
    for (const Value& item : value.items) {
      if (!text.empty()) text += ", ";
      if (value.kind == Value::Kind::table) text += item.key + " = ";
      text += render(item);
    }
    return text;
  };
  switch (value.kind) {
    case Value::Kind::boolean: return value.boolean ? "true" : "false";
    case Value::Kind::integer: return std::to_string(value.integer);
    case Value::Kind::real: return fmt::format("{}", value.real);
    case Value::Kind::text: return quoted(value.text);
    case Value::Kind::list: return "[" + joined() + "]";
    case Value::Kind::table: return value.items.empty() ? "{}" : "{ " + joined() + " }";
  }
  return "";
}

}  // namespace mrmf
