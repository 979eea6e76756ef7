// A split that keeps groups of rows whole, balances classes over its parts, or makes folds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/rows/row_source.hpp"
#include "io/rows/split.hpp"
#include "io/rows/split_column.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Rows that stay together, shared out over the parts of a split or over folds.

/// Rows that stay together: those of one subject, or a single one.
struct RowCluster {
  std::uint64_t random_key = 0;  ///< groups are shared out in the order of these
  Index rows = 0;                ///< of all classes
  std::vector<std::pair<std::int32_t, Index>>
      class_rows{};  ///< classes and their rows; empty where there are no classes
};

/// Which part each group goes to. Shares (above 0, with a sum of 1) are of rows, and of the rows of every class, as
/// near as moves of single groups bring them: groups come in random order, whatever their size, each to the part that
/// lacks most, and then go to others that they suit better. Every part gets a group. requires: as many groups as parts.
/// A function of its arguments alone.
std::vector<std::size_t> assign_groups(const std::vector<RowCluster>& groups, const std::vector<double>& shares);

// A split that keeps groups of rows whole, balances classes, or makes folds.

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
