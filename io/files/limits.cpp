#include "io/files/limits.hpp"

#include <algorithm>
#include <limits>

namespace mrmf {

Index saturated_product(Index a, Index b) {
  return b > 0 && a > std::numeric_limits<Index>::max() / b ? std::numeric_limits<Index>::max() : a * b;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string text;
  for (const Index size : shape)  // as the file has it, even if it does not fit an Index
    text += (text.empty() ? "" : ", ") + std::to_string(static_cast<std::uint64_t>(size));
  return "(" + text + ")";
}

void require_countable(const std::vector<Index>& shape, const std::string& what) {
  Index elements = 1, row = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    elements = saturated_product(elements, std::max<Index>(shape[axis], 0));
    if (axis > 0) row = saturated_product(row, std::max<Index>(shape[axis], 0));
  }
  const bool negative = std::ranges::any_of(shape, [](Index size) { return size < 0; });
  if (!negative && elements <= kMostElements && row <= kMostRowElements) return;
  throw DataError(what + " has shape " + shape_text(shape) + ", which is more than " +
                  std::to_string(kMostRowElements) + " numbers a row or " + std::to_string(kMostElements) +
                  " in all; is the file damaged?");
}

namespace {

/// The position behind the string that begins at `at`. An unterminated one-line string ends with its line, where a
/// parser stops, too.
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

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Looks in [first, last), the inside of a multi-line string, for a non-ASCII character directly behind a line-ending
// backslash and the space after it.
std::size_t odd_continuation(std::string_view text, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i + 1 < last; ++i) {
    if (text[i] != '\\') continue;
    std::size_t next = i + 1;
    while (next < last && is_space(text[next])) ++next;
    if (next > i + 1 && next < last && !is_ascii(text[next])) return next;
    if (next == i + 1) ++i;  // the backslash escapes the next character
  }
  return text.size();
}

// The first non-ASCII character where TOML allows none; the text's size when there is none. For most such characters
// toml++ 3.3 has undefined behaviour when it tests for a space (is_non_ascii_horizontal_whitespace).
std::size_t first_odd_letter(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  char before = '\n';  // the last character that is not a space
  for (std::size_t i = text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0; i < text.size();) {
    const bool begins = std::string_view("\n=[{,.").find(before) != std::string_view::npos;
    if (!is_space(text[i]) || text[i] == '\n') before = text[i];
    // Within a number or word, a quote begins no string: the parser reads on.
    if (begins && (text[i] == '"' || text[i] == '\'')) {
      const std::size_t end = behind_string(text, i);
      const std::size_t odd = text.substr(i, 3) == "\"\"\"" ? odd_continuation(text, i + 3, end) : text.size();
      if (odd < text.size()) return odd;
      i = end;
    } else if (text[i] == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (!is_ascii(text[i])) {
      return i;
    } else {
      ++i;
    }
  }
  return text.size();
}

}  // namespace

void require_shallow_toml(std::string_view text, const std::string& origin) {
  if (static_cast<Index>(text.size()) > kMostTomlBytes)
    throw ConfigError(origin + ": has " + std::to_string(text.size()) + " bytes; a configuration has at most " +
                      std::to_string(kMostTomlBytes));
  if (toml_nesting(text) > kMostNesting)
    throw ConfigError(origin + ": lists, tables or dotted keys are nested more than " + std::to_string(kMostNesting) +
                      " deep; no key wants that");
  if (const std::size_t odd = first_odd_letter(text); odd < text.size())
    throw ConfigError(
        origin + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<Index>(odd), '\n')) +
        ": a character that is not ASCII outside of quotes and comments; is it a space or a quote of another kind?");
}

void require_shallow_json(std::string_view text, const std::string& origin) {
  if (json_nesting(text) > kMostNesting)
    throw DataError(origin + ": is nested more than " + std::to_string(kMostNesting) +
                    " deep, which mrmf never writes; is the file damaged?");
}

}  // namespace mrmf
