#include "src/config/config_value.hpp"

#include <fmt/format.h>

#include "io/limits.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

void place(Value& value, const std::string& where) {
  value.where = where;
  for (Value& item : value.items) place(item, where);
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
  place(*target, where);
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
