#include "src/inspection/label_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "io/class_values.hpp"
#include "src/inspection/array_names.hpp"

namespace mrmf {

void LabelValues::add(float value) {
  if (!std::isfinite(value)) return;
  least = count == 0 ? value : std::min<double>(least, value);
  most = count == 0 ? value : std::max<double>(most, value);
  ++count;
  const bool is_whole = value == std::floor(value);
  whole = whole && is_whole;
  from_0_to_1 = from_0_to_1 && (value == 0 || value == 1);
  if (is_whole && value >= 0 && value < kMostCounted)
    classes.set(static_cast<std::size_t>(value));
  else if (others.size() <= kFewNumbers)
    others.insert(value);
}

void LabelValues::add_label(ConstSpan label) {
  if (!std::ranges::all_of(label, [](float value) { return std::isfinite(value); })) return;
  one_hot = one_hot && one_hot_place(label);
  const auto [low, high] = std::ranges::minmax(label);
  const auto lows = std::ranges::count(label, low), highs = std::ranges::count(label, high);
  if (!marks) marks.emplace(low, high);
  marked = marked && highs == 1 && highs + lows == std::ssize(label) && *marks == std::pair(low, high);
}

std::vector<float> LabelValues::listed() const {
  std::vector<float> all(others.begin(), others.end());
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (classes.test(i)) all.push_back(static_cast<float>(i));
  std::ranges::sort(all);
  return all;
}

std::string LabelValues::odd_words() const {
  if (words.contains(""))
    return "the empty text is one of these classes; if it says that there is no label, leave out such rows";
  std::map<std::string, std::string> seen;
  for (const std::string& word : words)
    if (const auto [other, fresh] = seen.try_emplace(in_small_letters(word), word); !fresh)
      return fmt::format("'{}' and '{}' are two of these classes; if they are one, store one word for them",
                         other->second, word);
  return "";
}

}  // namespace mrmf
