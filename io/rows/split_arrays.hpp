// Arrays that list the rows of each part of a split, as "train_idx" and "val_idx" do, or that mark them.
#pragma once

#include "io/rows/split_column.hpp"

namespace mrmf {

/// What the arrays say of every row of all files, which have so many rows, as a column whose values are the arrays'
/// names: "" for rows that none of them names. An array holds numbers of rows of its own file, from 0 on, or a mark of
/// 0 or 1 for each row. Not collective. DataError: no list of numbers, a row that is not there, is named twice, or by
/// two of the arrays.
SplitColumn read_split_arrays(const RowSources& arrays, const std::vector<Index>& rows_of_file);

}  // namespace mrmf
