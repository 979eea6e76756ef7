// Which rows of a data set's files are its samples: a part of a split, and without those that are left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

enum class RowPart { all, train, validation };

/// A part of rows. Rows are numbered over all files of a data set, in their order.
struct RowChoice {
  RowPart part = RowPart::all;
  std::string column;     ///< a data set of one number or word per row (io/split_column.hpp); empty: by share
  double validation = 0;  ///< share of the rows that validates, chosen at random
  std::uint64_t seed = 1;
  /// Values of the column whose rows train or validate, as texts; those of numbers are numbers. See roles_of().
  std::vector<std::string> train_roles{}, validation_roles{};
  bool operator==(const RowChoice&) const = default;
};

struct SplitColumn;

/// The rows of the part, ascending. A share is a function of the number of rows and the seed: both parts have at least
/// one row where there are two. `column` is the one that the choice names, if it does. DataError as roles_of()'s.
std::vector<Index> choose_rows(const RowChoice& choice, Index rows, const SplitColumn& column);

/// "3, 7-9, 12": ascending numbers, for people.
std::string ranges_text(const std::vector<Index>& numbers);

}  // namespace mrmf
