// A split that keeps groups of rows whole, balances classes, or makes folds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/rows/row_choice.hpp"
#include "io/rows/row_source.hpp"
#include "io/rows/split_column.hpp"

namespace mrmf {

/// The class of each row, numbered as they come, where labels say one of each row: a whole number, a word, or a row of
/// a single 1 and zeros. Empty where they are anything else, such as masks. `labels` opens them, words included.
std::vector<std::int32_t> read_strata(const RowSources& labels, const std::vector<Index>& rows_of_file);

/// The part of every row. requires: choice.rule is groups or folds, or choice.strata are not empty. `column` is what
/// choice.column names, if it does, and `strata` the rows' classes, or empty. DataError, with the key to set: fewer
/// groups than parts or folds, a fold that is none, a column of numbers that are not whole.
std::vector<Subset> parts_of_rows(const RowChoice& choice, Index rows, const SplitColumn& column,
                                  const std::vector<std::int32_t>& strata);

/// "12 groups of 'subject' train, 3 validate, 2 test", "fold 1 of 5: ..."; empty: rows are not grouped.
std::string parts_text(const RowChoice& choice, const SplitColumn& column, const std::vector<Subset>& parts);
/// "all rows that validate are of class 3 ..."; empty: they are of several, or there are no classes.
std::string one_class_text(const std::vector<Subset>& parts, const std::vector<std::int32_t>& strata);

}  // namespace mrmf
