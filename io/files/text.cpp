#include "io/files/text.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace mrmf {

int edit_distance(const std::string& a, const std::string& b) {
  const std::size_t columns = b.size() + 1;
  std::vector<int> table((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return table[i * columns + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

namespace {

/// Compares the first letters only, which are enough: the cost is the product of the two lengths.
int near_distance(const std::string& word, const std::string& candidate) {
  constexpr std::size_t letters = 64;
  return edit_distance(word.substr(0, letters), candidate.substr(0, letters));
}

}  // namespace

std::string list_near(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t most = 10, longest = 100;
  std::vector<std::pair<int, std::string>> listed;
  for (const std::string& candidate : candidates)
    listed.emplace_back(candidates.size() > most ? near_distance(word, candidate) : 0, candidate);
  std::stable_sort(listed.begin(), listed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(listed.size(), most); ++i) {
    const std::string& name = listed[i].second;
    text += (i > 0 ? ", " : "") + name.substr(0, longest) + (name.size() > longest ? "..." : "");
  }
  return listed.size() > most ? text + " and " + std::to_string(listed.size() - most) + " more" : text;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong, at most three: "bacth" means "batch"; "foo" and "y" mean nothing.
  const int letters = static_cast<int>(word.size());
  int allowed = letters > 1 ? std::clamp(letters / 3, 1, 3) : 0;
  std::string best;
  for (const std::string& candidate : candidates) {
    const int distance = near_distance(word, candidate);
    if (distance <= allowed) {
      best = candidate;
      allowed = distance - 1;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates, char quote) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? "" : std::string("; did you mean ") + quote + best + quote + "?";
}

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

namespace {

// The bytes of the UTF-8 character that begins here; 0: none does.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

}  // namespace

std::string readable_text(const std::string& text) {
  std::string readable;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    if (length == 0)  // Latin-1, whose numbers are Unicode's
      readable += {static_cast<char>(0xC0 | byte >> 6), static_cast<char>(0x80 | (byte & 0x3F))};
    else if (byte < 0x20 || byte == 0x7f)
      readable += ' ';
    else
      readable += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return readable;
}

}  // namespace mrmf
