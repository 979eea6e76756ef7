// What the labels of a file are called, as the file itself says.
#pragma once

#include <string>
#include <vector>

#include "io/dataset.hpp"

namespace mrmf {

/// Names of classes, or of the outputs of labels that are numbers, of the first file: those of an enumeration type, of
/// whose values class 0, 1, ... are told by `values` (as LabelForm has them; empty: 0, 1, ...); the attributes
/// flag_meanings (with flag_values) of CF, or a list of texts among the attributes class_names, label_names, names,
/// classes, columns and labels. For labels of several data sets, their own names. Empty where there are none, or not
/// `count` of them. Not collective.
std::vector<std::string> stored_names(const DatasetSpec& spec, std::size_t count);

}  // namespace mrmf
