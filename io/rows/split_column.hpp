// A split that the files give: a data set that says of every row what it is for, or arrays that list the rows of each
// part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/row_source.hpp"
#include "io/rows/split.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// A data set that says of every row what it is for: a mark, the number of a role, or a word such as "val".

struct SplitColumn {
  std::string name;  ///< name of the data set
  bool words = false;
  std::vector<std::string> values;   ///< the different ones: numbers ascending, as texts; words in alphabetic order
  std::vector<std::int32_t> of_row;  ///< for each row: the index of its value
  /// What an enumeration, or flag_meanings (CF), call each number, which means the same; empty: there are no names.
  std::vector<std::string> names{};
};

/// Reads the column of all files, which have so many rows; `column` opens it, words included. Not collective.
/// DataError: another shape than a number or a word for each row, a number that is not finite, words in one file and
/// numbers in another, other names of numbers, more than `most` different values.
SplitColumn read_split_column(const RowSources& column, const std::vector<Index>& rows_of_file, std::size_t most);
constexpr std::size_t kMostRoles = 4096;

/// Whether a value of a column of words, or of numbers, is one of those that a user has named.
bool is_any_of(const std::string& value, const std::vector<std::string>& named, bool words);
/// Whether a column holds what a user has named: a value, or the name of one.
bool holds(const SplitColumn& column, const std::string& named);

/// What rows of each of the column's values are for. The values that the choice names for validation validate; without
/// any, all numbers but 0. The values that it names for training train; without any, 0 does, or the words "train",
/// "Training" and others like them, or the only value that is left. The values that it names for the test do that.
/// All others are for nothing. DataError, with the key
/// to set, where that does not tell: words without a choice, more than two values without one, a named value that no
/// row has, several values of which none is known to train.
std::vector<std::optional<Subset>> roles_of(const RowChoice& choice, const SplitColumn& column);

/// Whether these values of a column of that name may be training, validation and test: three, that are no folds.
bool are_roles(const std::string& name, const std::vector<std::string>& values);
/// The words that usually stand for training and validation; in small letters.
bool is_training_word(const std::string& word);
bool is_validation_word(const std::string& word);
/// Whether rows of a column's value test: it is named by `test_roles`, or, where these are empty, it is a word such as
/// "test".
bool tests(const std::vector<std::string>& test_roles, const SplitColumn& column, const std::string& value);

/// "20 rows of 'role' = 2 neither train nor validate"; empty: all rows do.
std::string unused_text(const RowChoice& choice, const SplitColumn& column);

// Arrays that list the rows of each part of a split, as "train_idx" and "val_idx" do, or that mark them.

/// What the arrays say of every row of all files, which have so many rows, as a column whose values are the arrays'
/// names: "" for rows that none of them names. An array holds numbers of rows of its own file, from 0 on, or a mark of
/// 0 or 1 for each row. Not collective. DataError: no list of numbers, a row that is not there, is named twice, or by
/// two of the arrays.
SplitColumn read_split_arrays(const RowSources& arrays, const std::vector<Index>& rows_of_file);

}  // namespace mrmf
