// The samples of a data set that is spread over files, read by any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/order.hpp"
#include "io/row_reader.hpp"

namespace mrmf {

/// Bytes that a thread keeps for what it reads on the way.
struct Scratch {
  std::vector<std::byte> as_stored, fine;
};

/// Where a row is, for messages.
struct RowPlace {
  const std::string& path;
  const std::string& dataset;
  Index row;
};
/// "<path>: data set '<name>', row <row> holds NaN; ...", or an infinity, as `value` does.
std::string not_finite_text(const RowPlace& place, float value);

/// How many files hold some of these rows.
Index files_with(const DatasetShape& shape, Range rows);

class SampleFiles {
 public:
  /// Opens the files that hold rows of `owned`, and keeps them open; they share `most_cached` bytes for unpacked
  /// chunks. DataError when one cannot be.
  SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached = kMostCached);

  ElementType type() const { return type_; }  ///< of the rows that read() gives: DatasetShape::type
  Index row_bytes() const { return row_bytes_; }
  ReadingWay way() const;  ///< direct when all files are

  /// Rows of the whole data set, of those owned. DataError (file, data set, row in that file): cannot be read, or holds
  /// NaN or infinity. Any thread, each with a scratch of its own.
  void read(Range rows, std::byte* to, Scratch& scratch) const;

 private:
  struct File {
    Range rows;  // of the data set
    std::string path;
    RowReader reader;
  };
  void read_file(const File& file, Range rows, std::byte* to, Scratch& scratch) const;

  std::string dataset_;
  ElementType type_;
  Index row_elements_, row_bytes_;
  std::vector<File> files_;
};

}  // namespace mrmf
