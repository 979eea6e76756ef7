#include "src/nesting.hpp"

#include <algorithm>

namespace mrmf {
namespace {

/// The position behind the string that begins at `at`; a string that does not end on its line ends with it, as a parser
/// stops there, unless it is one over several lines.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool lines = text.substr(at, 3) == three;
  for (std::size_t i = at + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (lines) {
      if (text.substr(i, 3) == three) return i + 3;
    } else if (text[i] == quote || text[i] == '\n') {
      return i + 1;
    }
  }
  return text.size();
}

struct Depth {
  int open = 0, dots = 0, most = 0;

  void see(char c) {
    if (c == '[' || c == '{') ++open;
    if (c == ']' || c == '}') open = std::max(open - 1, 0);
    if (c == '.')
      ++dots;
    else if (std::string_view("=,[]{}\n").find(c) != std::string_view::npos)
      dots = 0;
    most = std::max({most, open, dots});
  }
};

}  // namespace

int toml_nesting(std::string_view text) {
  Depth depth;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"' || text[i] == '\'') {
      i = behind_string(text, i);
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else {
      depth.see(text[i++]);
    }
  }
  return depth.most;
}

int json_nesting(std::string_view text) {
  int open = 0, most = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (text[i] == '[' || text[i] == '{') {
      most = std::max(most, ++open);
    } else if (text[i] == ']' || text[i] == '}') {
      --open;
    }
  }
  return most;
}

void require_shallow_toml(std::string_view text, const std::string& origin) {
  if (static_cast<Index>(text.size()) > kMostTomlBytes)
    throw ConfigError(origin + ": has " + std::to_string(text.size()) + " bytes; a configuration has at most " +
                      std::to_string(kMostTomlBytes));
  if (toml_nesting(text) > kMostNesting)
    throw ConfigError(origin + ": lists, tables or dotted keys are nested more than " + std::to_string(kMostNesting) +
                      " deep; no key wants that");
}

void require_shallow_json(std::string_view text, const std::string& origin) {
  if (json_nesting(text) > kMostNesting)
    throw DataError(origin + ": is nested more than " + std::to_string(kMostNesting) +
                    " deep, which mrmf never writes; is the file damaged?");
}

}  // namespace mrmf
