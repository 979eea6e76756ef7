#include "io/class_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mrmf {

std::optional<double> class_number(const std::string& value) {
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  return error == std::errc{} && end == value.data() + value.size() && std::isfinite(number) ? std::optional(number)
                                                                                             : std::nullopt;
}

bool holds_words(const LabelForm& form) {
  return std::ranges::any_of(form.values, [](const std::string& value) { return !class_number(value); });
}

ClassValues::ClassValues(const LabelForm& form) : form_(form) {
  if (form.ignore) ignore_ = static_cast<float>(*form.ignore);
  for (std::size_t c = 0; c < form.values.size(); ++c)
    if (const std::optional<double> value = class_number(form.values[c]))
      values_.emplace(static_cast<float>(*value), static_cast<float>(c));
}

std::optional<float> ClassValues::of(const std::string& word) const {
  const auto found = std::ranges::find(form_.values, word);
  return found == form_.values.end() ? std::nullopt : std::optional(static_cast<float>(found - form_.values.begin()));
}

std::optional<float> ClassValues::of_one_hot(ConstSpan row) const {
  if (ignore_ && std::ranges::all_of(row, [&](float v) { return v == *ignore_; })) return kIgnoredLabel;
  const auto one = std::ranges::find_if(row, [](float v) { return v != 0; });
  if (one == row.end() || *one != 1 || std::any_of(one + 1, row.end(), [](float v) { return v != 0; })) return {};
  return static_cast<float>(one - row.begin());
}

std::string ClassValues::expected() const {
  if (form_.values.empty()) return "the classes are 0 to " + std::to_string(form_.classes - 1);
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, form_.values.size()); ++c) text += (c > 0 ? ", " : "") + form_.values[c];
  return "training.class_values are " + text + (form_.values.size() > most ? ", ..." : "");
}

}  // namespace mrmf
