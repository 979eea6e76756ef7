// How the labels of a file say which class they are: by its number, by a value or a word that stands for it, or
// one-hot.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/dataset.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// Where a row of numbers has its 1, if all others are 0, but for what rounding leaves of such numbers; else none.
std::optional<std::size_t> one_hot_place(ConstSpan row);

/// What a label that is ignored becomes, in place of a class.
constexpr float kIgnoredLabel = -1;

/// Makes numbers of classes of the labels of a form of classes.
class ClassValues {
 public:
  explicit ClassValues(const LabelForm& form);

  /// The class of a number, kIgnoredLabel, or none.
  std::optional<float> of(float value) const {
    if (ignore_ && value == *ignore_) return kIgnoredLabel;
    if (values_.empty()) return plain(value);
    const auto found = values_.find(value);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  /// The class of a word that is named, or that is the text of a number that is; or none.
  std::optional<float> of(const std::string& word) const;
  /// The class of a one-hot row, kIgnoredLabel where all of it is the ignored value, or none.
  std::optional<float> of_one_hot(ConstSpan row) const;

  std::string expected() const;  ///< "the classes are 0 to 3", "the classes are the values 1, 2, 3"

 private:
  std::optional<float> plain(float value) const {
    const bool is_class = value >= 0 && value < static_cast<float>(form_.classes) && value == std::floor(value);
    return is_class ? std::optional(value) : std::nullopt;
  }

  LabelForm form_;
  std::optional<float> ignore_;
  std::unordered_map<float, float> values_;  // values of classes that are named by numbers
};

/// A named value as a number; none for a word.
std::optional<double> class_number(const std::string& value);

}  // namespace mrmf
