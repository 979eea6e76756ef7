// Labels of several data sets that differ in their positions, such as scalars and images: a list of numbers per sample.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "io/rows/dataset.hpp"
#include "io/rows/row_source.hpp"

namespace mrmf {

/// The shape of labels, and which of them come first, where the sources (of one file) are such; none: all of them have
/// the same positions, or none. `samples` has the number of samples. DataError, naming the data set: words among them,
/// or another number of rows.
std::optional<std::pair<Shape, MixedLabels>> mixed_labels(std::span<const std::unique_ptr<const RowSource>> sources,
                                                          const DatasetSpec& spec, const DatasetShape& samples);

/// The first of mixed labels, those without positions, as labels of their own: how to read them, and their shape.
std::pair<DatasetSpec, DatasetShape> first_of_mixed(const DatasetSpec& spec, const DatasetShape& shape);

}  // namespace mrmf
