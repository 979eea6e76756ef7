#include "io/rows/class_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "io/rows/row_source.hpp"
#include "io/values/packing_units.hpp"

namespace mrmf {

std::optional<double> class_number(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc{} && end == value.data() + value.size() && std::isfinite(number) ? std::optional(number)
                                                                                             : std::nullopt;
}

std::optional<std::size_t> one_hot_index(ConstSpan row) {
  constexpr float kRounding = 1e-4F;
  const auto is = [](float value, float wanted) { return std::abs(value - wanted) <= kRounding; };
  const auto one = std::ranges::find_if(row, [&](float v) { return !is(v, 0); });
  if (one == row.end() || !is(*one, 1) || std::any_of(one + 1, row.end(), [&](float v) { return !is(v, 0); }))
    return {};
  return static_cast<std::size_t>(one - row.begin());
}

std::string characters_text(const RowSource& labels) {
  constexpr Index some = 64;
  const std::vector<Index>& shape = labels.shape();
  if (!labels.holds_words() || shape.size() != 2 || shape[0] < 1 || shape[1] < 2) return "";
  const std::vector<std::string> words = labels.words(0, std::min(some, shape[0]));
  if (std::ranges::any_of(words, [](const std::string& word) { return word.size() > 1; })) return "";
  return labels.where() + " has " + std::to_string(shape[1]) +
         " texts of one character in each row, as netCDF may keep a word; store each word as one text, such as "
         "netCDF4.chartostring makes of them";
}

ClassValues::ClassValues(const LabelForm& form) : form_(form) {
  if (form.ignore) ignore_ = static_cast<double>(*form.ignore);
  for (std::size_t c = 0; c < form.values.size(); ++c) {
    const auto number = static_cast<float>(c);
    words_.emplace(form.values[c], number);
    const std::optional<double> value = class_number(form.values[c]);
    if (!value) continue;
    for (const ElementType type : kKinds)
      if (const auto stored = as_stored(*value, type))
        values_[kind(type)].emplace(static_cast<double>(*stored), number);
  }
}

std::optional<float> ClassValues::of(const std::string& word) const {
  const auto found = words_.find(word);
  if (found != words_.end()) return found->second;
  const std::optional<double> number = form_.values.empty() ? std::nullopt : class_number(word);
  return number ? of(*number, ElementType::float64) : std::nullopt;
}

std::optional<std::pair<std::string, std::string>> ClassValues::same_in(ElementType type) const {
  std::unordered_map<double, std::string> seen;
  for (const std::string& value : form_.values)
    if (const std::optional<double> number = class_number(value))
      if (const auto stored = as_stored(*number, is_float(type) ? type : ElementType::float64))
        if (const auto [known, fresh] = seen.emplace(static_cast<double>(*stored), value); !fresh)
          return std::pair(known->second, value);
  return {};
}

std::optional<float> ClassValues::of_one_hot(ConstSpan row) const {
  if (ignore_ && std::ranges::all_of(row, [&](float v) { return double{v} == *ignore_; })) return kIgnoredLabel;
  const std::optional<std::size_t> index = one_hot_index(row);
  return index ? std::optional(static_cast<float>(*index)) : std::nullopt;
}

std::string ClassValues::expected() const {
  if (form_.values.empty()) return "the classes are 0 to " + std::to_string(form_.classes - 1);
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, form_.values.size()); ++c) text += (c > 0 ? ", " : "") + form_.values[c];
  return "training.class_values are " + text + (form_.values.size() > most ? ", ..." : "");
}

}  // namespace mrmf
