// Rows that are the same, whatever names lead to them: plain arithmetic on where rows lie, and what data sets have in
// common by it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// Consecutive rows of a data set that are consecutive rows of an array.
struct RowOrigin {
  Index first = 0, count = 0;  ///< rows of the data set
  ObjectIdentity array;
  Index row = 0;  ///< row of the array, which is the first of them
  std::vector<Index>
      part{};  ///< which numbers of its row, and where they stand in the data set's; empty: all, in place
  bool operator==(const RowOrigin&) const = default;
};

/// The rows of one file of a data set: for each name of which a row is made, where its rows lie.
struct FileRows {
  Index rows = 0;
  std::vector<std::vector<RowOrigin>> names;  ///< ascending
};

/// Some rows of one of several files.
struct RowLocation {
  std::size_t file = 0;
  Index first = 0, count = 0;
  bool operator==(const RowLocation&) const = default;
};
/// The same rows, twice.
struct SameRows {
  RowLocation once, again;  ///< `again` is the later one of the list
  bool operator==(const SameRows&) const = default;
};

/// The first file with rows that are also another's before it, or its own: rows of which all names' numbers lie at the
/// same locations. Rows without an origin are nobody's.
std::optional<SameRows> find_same_rows(const std::vector<FileRows>& files);

/// Rows of `here` that are also rows of `there`, by the same rule: their locations in `here`, which may overlap.
/// `taken` says which rows of each file of `there` count.
std::vector<RowLocation> rows_also_in(const std::vector<FileRows>& here, const std::vector<FileRows>& there,
                                      const std::vector<std::vector<bool>>& taken);

// The same for whole data sets, whose files are looked at.

struct UsedDataset {
  FoundDataset found;
  Subset use;  ///< what its rows are for; all: a trained model is run on them, whatever they were for
};

/// DataError, with both names and files, when the same rows occur twice in one of the data sets, or in two: a file
/// named twice, by a link or another path, an array by two names, a virtual data set beside its sources. Rows are the
/// same where all numbers of their samples lie at the same locations in the same files, not where they are merely
/// equal. Data sets that are the parts of one split are looked at as one. Opens only files of which more than the name
/// must be known: those named twice, those whose rows lie in other files, and these. Collective; the root looks.
void require_distinct_rows(const std::vector<UsedDataset>& datasets, Comm& comm);

/// How many samples of `here` are samples of `there`, too, by the same rule. Data sets of the same names in the same
/// files are compared row by row, without opening any. Collective; the root looks.
Index count_common_samples(const FoundDataset& here, const FoundDataset& there, Comm& comm);

}  // namespace mrmf
