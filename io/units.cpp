#include "io/units.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace mrmf {
namespace {

/// How many bytes the character at `at` has in UTF-8; 0: it is none.
std::size_t bytes_of_character(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  const std::size_t bytes = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if ((first >= 0x80 && first < 0xC2) || first > 0xF4 || at + bytes > text.size()) return 0;
  for (std::size_t i = at + 1; i < at + bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return bytes;
}

/// The words of a text, with one blank between them, as far as their spelling counts.
std::string plain_units(const std::string& text) {
  constexpr std::size_t longest_symbol = 3;
  std::string plain;
  std::istringstream words(readable_units(text));
  for (std::string word; words >> word;) {
    const bool symbol = static_cast<std::size_t>(std::ranges::count_if(
                            word, [](unsigned char c) { return std::isalpha(c) != 0; })) <= longest_symbol;
    for (char& c : word)
      if (!symbol || c != 'M') c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    plain += (plain.empty() ? "" : " ") + word;
  }
  return plain;
}

}  // namespace

std::string readable_units(const std::string& text) {
  std::string readable;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = bytes_of_character(text, at);
    if (bytes == 0) {
      readable += static_cast<char>(0xC0 | (byte >> 6));
      readable += static_cast<char>(0x80 | (byte & 0x3F));
    } else if (byte < 0x20 || byte == 0x7F) {
      readable += ' ';
    } else {
      readable += text.substr(at, bytes);
    }
    at += std::max<std::size_t>(bytes, 1);
  }
  return readable;
}

bool same_units(const std::string& one, const std::string& other) {
  return one == other || plain_units(one) == plain_units(other);
}

}  // namespace mrmf
