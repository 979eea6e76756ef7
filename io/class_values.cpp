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

std::optional<std::size_t> one_hot_place(ConstSpan row) {
  constexpr float kRounding = 1e-4F;
  const auto is = [](float value, float wanted) { return std::abs(value - wanted) <= kRounding; };
  const auto one = std::ranges::find_if(row, [&](float v) { return !is(v, 0); });
  if (one == row.end() || !is(*one, 1) || std::any_of(one + 1, row.end(), [&](float v) { return !is(v, 0); }))
    return {};
  return static_cast<std::size_t>(one - row.begin());
}

ClassValues::ClassValues(const LabelForm& form) : form_(form) {
  if (form.ignore) ignore_ = static_cast<float>(*form.ignore);
  for (std::size_t c = 0; c < form.values.size(); ++c)
    if (const std::optional<double> value = class_number(form.values[c]))
      values_.emplace(static_cast<float>(*value), static_cast<float>(c));
}

std::optional<float> ClassValues::of(const std::string& word) const {
  const auto found = std::ranges::find(form_.values, word);
  if (found != form_.values.end()) return static_cast<float>(found - form_.values.begin());
  const std::optional<double> number = class_number(word);
  return number && !values_.empty() ? of(static_cast<float>(*number)) : std::nullopt;
}

std::optional<float> ClassValues::of_one_hot(ConstSpan row) const {
  if (ignore_ && std::ranges::all_of(row, [&](float v) { return v == *ignore_; })) return kIgnoredLabel;
  const std::optional<std::size_t> place = one_hot_place(row);
  return place ? std::optional(static_cast<float>(*place)) : std::nullopt;
}

std::string ClassValues::expected() const {
  if (form_.values.empty()) return "the classes are 0 to " + std::to_string(form_.classes - 1);
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t c = 0; c < std::min(most, form_.values.size()); ++c) text += (c > 0 ? ", " : "") + form_.values[c];
  return "training.class_values are " + text + (form_.values.size() > most ? ", ..." : "");
}

}  // namespace mrmf
