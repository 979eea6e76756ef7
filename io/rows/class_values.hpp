// How the labels of a file say which class they are: by its number, by a value or a word that stands for it, or
// one-hot.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

class RowSource;

/// The index of the 1 in a row of numbers whose others are 0, but for what rounding leaves; none in any other row.
std::optional<std::size_t> one_hot_index(ConstSpan row);

/// What to do about texts of one character each, several per row, as netCDF keeps words in arrays of characters:
/// "<where> has ..."; "" where they are none. Reads a few rows.
std::string characters_text(const RowSource& labels);

/// What a label that is ignored becomes, in place of a class.
constexpr float kIgnoredLabel = -1;

/// Makes numbers of classes of the labels of a form of classes.
class ClassValues {
 public:
  explicit ClassValues(const LabelForm& form);

  /// The class of a number that a file holds in this type, kIgnoredLabel, or none. A value that is named is rounded as
  /// the type rounds it.
  std::optional<float> of(double value, ElementType type) const {
    if (ignore_ && value == *ignore_) return kIgnoredLabel;
    if (form_.values.empty()) return plain(value);
    const auto& values = values_[kind(type)];
    const auto found = values.find(value);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  /// Two named values that are one number in this type; none: it tells all of them apart.
  std::optional<std::pair<std::string, std::string>> same_in(ElementType type) const;
  /// The class of a word that is named, or that is the text of a number that is; or none.
  std::optional<float> of(const std::string& word) const;
  /// The class of a one-hot row, kIgnoredLabel where all of it is the ignored value, or none.
  std::optional<float> of_one_hot(ConstSpan row) const;

  std::string expected() const;  ///< "the classes are 0 to 3", "the classes are the values 1, 2, 3"

 private:
  std::optional<float> plain(double value) const {
    const bool is_class = value >= 0 && value < static_cast<double>(form_.classes) && value == std::floor(value);
    return is_class ? std::optional(static_cast<float>(value)) : std::nullopt;
  }
  static constexpr std::array kKinds{ElementType::float16, ElementType::float32, ElementType::float64};
  /// The index of a type among kKinds, by how it rounds numbers: integers do not.
  static std::size_t kind(ElementType type) {
    return type == ElementType::float16 ? 0 : type == ElementType::float32 ? 1 : 2;
  }

  LabelForm form_;
  std::optional<double> ignore_;
  std::array<std::unordered_map<double, float>, kKinds.size()> values_;  // the classes that numbers name, by kind
  std::unordered_map<std::string, float> words_;                         // the classes that words name
};

/// Named values are below it: above, a double does not tell neighbours apart.
constexpr double kMostClassValue = 9007199254740992;  // 2^53

/// A named value as a number; none for a word.
std::optional<double> class_number(const std::string& value);

}  // namespace mrmf
