// Numbers that are not finite: rows that no model can learn from, because they hold NaN or infinity, and masks of what
// is missing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/element_type.hpp"

namespace mrmf {

/// Whose numbers a data set's are: of samples, or of labels.
enum class NumbersOf { samples, labels };

/// "<path>: data set '<name>', row <row> holds NaN; ...", or an infinity, or a number that float32 cannot hold. Reads
/// that row again, in its own type. With NotFiniteRule::fill, NaN is not meant. Labels are never filled.
std::string not_finite_text(const RowSource& source, Index row, NotFiniteRule rule = NotFiniteRule::refuse,
                            NumbersOf of = NumbersOf::samples);

/// The rows among a shape's samples whose samples or labels hold NaN or infinity, or, with NotFiniteRule::fill, other
/// such numbers than NaN in samples. NaN that says that a class, or yes or no, is missing is no such number
/// (says_no_label()). Over all files, ascending, the same on every rank. Collective: each rank reads its
/// part of all rows, once. DataError for finite numbers that float32 cannot hold, in rows that hold neither.
std::vector<Index> rows_not_finite(const DatasetSpec& spec, const DatasetShape& shape, Comm& comm);

/// How many rows among a shape's samples have such labels. Reads all labels. Not collective.
Index labels_not_finite(const DatasetSpec& spec, const DatasetShape& shape);

/// Whether NaN in these labels says that there is none: attributes of their array declare what is missing.
bool says_no_label(const LabelForm& form, const RowSource& labels);

// Masks: a channel of samples that says where numbers are there.

/// Sets the last channel of each position, of values with channels last: 1 where all others are there, 0 where one is
/// NaN.
void write_mask(ElementType type, std::byte* values, Index positions, Index channels);

}  // namespace mrmf
