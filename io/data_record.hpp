// What is remembered of data files, so that later it can be told whether they still hold the same numbers: size and
// time of every file, and checksums of some rows of some of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/dataset.hpp"

namespace mrmf {

/// A file, and the data sets in it that are used.
struct UsedFile {
  std::string path;
  std::vector<std::string> datasets;
  RowForm rows = RowForm::axis;
  std::string groups{};  ///< as DatasetSpec's
  PackingRule packing = PackingRule::apply;
};

/// The files of training and validation, in the order of their lists. Files that both name stand there once.
std::vector<UsedFile> used_files(const DatasetSpec& train, const DatasetSpec& validation);

/// What is remembered of one data set of one file.
struct ArrayRecord {
  Index file = 0;  ///< by its position
  std::string name;
  std::vector<Index> shape;
  std::uint64_t sum = 0;  ///< of the type, and of numbers of some rows; of all rows of a small data set
  bool operator==(const ArrayRecord&) const = default;
};

struct DataRecord {
  std::vector<Index> bytes;            ///< bytes of each file
  std::vector<std::int64_t> modified;  ///< when each was written last, in seconds since 1970
  std::vector<ArrayRecord> arrays;     ///< arrays of the files that were looked into, a few dozen at most
  bool operator==(const DataRecord&) const = default;
};

/// Looks at the files' sizes and times, and reads at most some 64 MB of each kind of data set: which rows follows from
/// the number of files and from the shapes alone. On one rank. DataError when a file or its numbers cannot be read.
DataRecord record_of(const std::vector<UsedFile>& files);

}  // namespace mrmf
