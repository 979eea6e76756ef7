// Which rows of a data set's files are its samples: those of training, validation or test, and of these one of several
// equal pieces, with the rows that are held out from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

// Which rows of a data set's files are its samples: a part of a split, and without those that are left out.

/// What rows are for. all: every row, or, of one row, nothing.
enum class Subset { all, train, validation, test };

/// rows: by a share, or as the values of a column say. groups: rows of one value of a column stay together. folds: one
/// of several parts validates, each of them once. arrays: each part has arrays of its own, which name its rows.
enum class SplitRule { rows, groups, folds, arrays };

/// A part of rows. Rows are numbered over all files of a data set, in their order.
struct RowChoice {
  Subset part = Subset::all;
  std::string column;     ///< a data set of one number or word per row (SplitColumn); empty: by share
  double validation = 0;  ///< share of the rows that validates, chosen at random
  std::uint64_t seed = 1;
  /// Values of the column whose rows train or validate, as texts; those of numbers are numbers. See roles_of(). Where
  /// the rule is `arrays`, names of arrays (io/rows/split_column_and_groups.hpp).
  std::vector<std::string> train_roles{}, validation_roles{};
  std::vector<std::string> test_roles{};  ///< the same of rows that test
  double test = 0;                        ///< share of the rows that tests
  SplitRule rule = SplitRule::rows;
  int folds = 0;  ///< folds: so many are made, of the column's groups where there is one; 0: its values are folds
  int fold = 0;   ///< the one that validates, from 0
  std::string strata{};  ///< the data set of labels, where parts are to have alike shares of every class; empty: none
  /// Whether rows of one value of the column stay together.
  bool by_groups() const {
    return rule == SplitRule::groups || (rule == SplitRule::folds && folds > 0 && !column.empty());
  }
  /// Whether values of the column, or arrays of each part, say what rows are for.
  bool by_roles() const { return rule == SplitRule::arrays || (rule == SplitRule::rows && !column.empty()); }
  std::vector<std::string> columns() const;  ///< the data sets that it reads: the column, or the arrays of each part
  bool operator==(const RowChoice&) const = default;
};

struct SplitColumn;

/// The rows of the part, ascending. A share is a function of the number of rows and the seed: both parts have at least
/// one row where there are two. `column` is the one that the choice names, if it does, and `strata` are the classes of
/// rows, where it names labels and they are one class each. DataError as roles_of()'s and parts_of_rows()'.
std::vector<Index> choose_rows(const RowChoice& choice, Index rows, const SplitColumn& column,
                               const std::vector<std::int32_t>& strata = {});

/// "3, 7-9, 12": ascending numbers, for people.
std::string ranges_text(const std::vector<Index>& numbers);

// One of several equal parts of a data set's rows, and the rows of it that are held out from training.

/// A part of the rows that a RowChoice has left.
struct RowPiece {
  int of = 1, number = 0;  ///< this one of so many parts, counted from 0
  double held_out = 0;     ///< share of the part's rows that does not train
  bool held = false;       ///< those rows are meant, and not the others
  std::uint64_t seed = 1;
  bool all() const { return of == 1 && held_out == 0; }
  bool operator==(const RowPiece&) const = default;
};

/// Those of `rows`, in their order. Which part a row is in, and whether it is held out, depends on the seed and on all
/// rows; parts differ by one row at most. With a share to hold out, both sides have a row where there are two.
std::vector<Index> rows_of_piece(const RowPiece& piece, std::vector<Index> rows);

}  // namespace mrmf
