// The samples of a data set that is spread over files, read by any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/element.hpp"
#include "io/order.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// How rows get from the file into memory; `text` is for people.
struct ReadingWay {
  bool direct = false;  ///< with pread, beside HDF5 and without its lock
  std::string text;     ///< "contiguous", "chunked (3 rows a chunk)", "compressed (1 row a chunk)", ...
};

/// Rows of one data set of one file, in their own element type, read by any thread. Keeps its file open. Contiguous
/// data sets of this machine's byte order are read without HDF5, by many threads at once; all others through HDF5, by
/// one thread at a time.
class RowReader {
 public:
  /// Keeps unpacked chunks of at most `most_cached` bytes. DataError: file or data set cannot be opened.
  RowReader(const std::string& path, const std::string& dataset, Index most_cached = kMostCached);
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;
  ~RowReader();

  ElementType type() const;
  const std::vector<Index>& shape() const;
  Index row_bytes() const;
  ReadingWay way() const;
  ChunkMemory chunk_memory() const;

  /// DataError with the first row when some were never written, or come from a file that is not there. Reads no rows.
  void require_written() const;
  /// Rows [first, first + count) to count * row_bytes() bytes. DataError: file, data set, row, what is wrong.
  void read(Index first, Index count, std::byte* to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

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
