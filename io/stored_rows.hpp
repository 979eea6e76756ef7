// From the numbers of a data set's samples to rows of its files.
#pragma once

#include <functional>
#include <vector>

#include "io/dataset.hpp"
#include "io/sample_order.hpp"

namespace mrmf {

/// Consecutive samples that are consecutive rows of one file.
struct RowRun {
  std::size_t file = 0;  ///< in the data set's list
  Range rows;            ///< rows of that file
};

class StoredRows {
 public:
  explicit StoredRows(const DatasetShape& shape);

  /// Calls visit(run) for the runs that these samples are, in their order.
  void for_each_run(Range samples, const std::function<void(const RowRun&)>& visit) const;
  /// The run of this sample alone.
  RowRun at(Index sample) const;

  /// Rows of the files, of which not all need be samples.
  Index rows_of_file(std::size_t file) const { return starts_[file + 1] - starts_[file]; }
  Index all() const { return starts_.back(); }

 private:
  std::vector<Index> starts_;  // starts of each file's rows, and the end of the last
  std::vector<Index> rows_;    // rows of each sample, over all files; empty: the same number
};

}  // namespace mrmf
