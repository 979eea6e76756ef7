// Splits that the files give (a data set that says of every row what it is for, or arrays that list the rows of each
// part), and splits that keep groups of rows whole, balance classes over their parts, or make folds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/rows/row_source_and_reader.hpp"
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

// Rows that stay together, shared out over the parts of a split or over folds.

/// Rows that stay together: those of one subject, or a single one.
struct RowCluster {
  std::uint64_t random_key = 0;  ///< groups are shared out in the order of these
  Index rows = 0;                ///< rows of all classes together
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
