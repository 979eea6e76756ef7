#include "io/unit_text.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "io/readable_text.hpp"

namespace mrmf {
namespace {

/// The words of a text, with one blank between them, as far as their spelling counts.
std::string plain_units(const std::string& text) {
  constexpr std::size_t longest_symbol = 3;
  std::string plain;
  std::istringstream words(readable_text(text));
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

bool same_units(const std::string& one, const std::string& other) {
  return one == other || plain_units(one) == plain_units(other);
}

}  // namespace mrmf
