// Samples of a data set that is spread over files, read by any thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/axis_order.hpp"
#include "io/dataset.hpp"
#include "io/element.hpp"
#include "io/sample_order.hpp"
#include "io/stored_rows.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// How rows get from the file into memory; `text` is for people.
struct ReadingWay {
  bool direct = false;  ///< with pread, without HDF5 and its lock
  std::string text;     ///< "contiguous", "chunked (3 rows a chunk)", "compressed (1 row a chunk)", ...
};

/// Rows of one data set of one file, in their own element type, read by any thread. Keeps its file open. Contiguous
/// data sets in this machine's own format are read without HDF5, by many threads at once. All others are read through
/// HDF5, by one thread at a time.
class RowReader {
 public:
  /// Keeps at most `most_cached` bytes of unpacked chunks. DataError when file or data set cannot be opened.
  RowReader(const std::string& path, const std::string& dataset, Index most_cached = kMostCached);
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;
  ~RowReader();

  ElementType type() const;
  const std::vector<Index>& shape() const;
  Index row_bytes() const;
  ReadingWay way() const;
  ChunkMemory chunk_memory() const;

  /// DataError with the first row when rows were never written, or come from a missing file. Reads no rows.
  void require_written() const;
  /// Reads rows [first, first + count) into count * row_bytes() bytes. DataError: file, data set, row, what is wrong.
  void read(Index first, Index count, std::byte* to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A thread's buffers for intermediate values.
struct Scratch {
  std::vector<std::byte> as_stored, unordered, fine;
};

/// The location of a row, for messages.
struct RowPlace {
  const std::string& path;
  const std::string& dataset;
  Index row;
};
/// "<path>: data set '<name>', row <row> holds NaN; ...", or an infinity, depending on `value`.
std::string not_finite_text(const RowPlace& place, float value);

/// The number of files that hold some of these rows.
Index files_with(const DatasetShape& shape, Range rows);

class SampleFiles {
 public:
  /// Opens the files that hold rows of `owned`, and keeps them open; they share `most_cached` bytes for unpacked
  /// chunks. DataError when one cannot be opened.
  SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached = kMostCached);

  ElementType type() const { return type_; }  ///< of the rows from read(): DatasetShape::type
  Index row_bytes() const { return row_bytes_; }
  ReadingWay way() const;  ///< direct when it is so for all files

  /// Reads owned samples, numbered within the whole data set, with their channels last. DataError (file, data set, row
  /// in that file) when one cannot be read, or holds NaN or infinity. On any thread, each with its own scratch.
  void read(Range samples, std::byte* to, Scratch& scratch) const;

 private:
  struct File {
    std::string path;
    RowReader reader;
  };
  void read_run(const File& file, Range rows, std::byte* to, Scratch& scratch) const;
  void read_converted(const File& file, Range rows, std::byte* to, Scratch& scratch) const;

  std::string dataset_;
  ElementType type_;
  Index row_elements_, row_bytes_;
  ChannelBox box_;
  bool moves_channels_;
  StoredRows stored_;
  std::map<std::size_t, File> files_;  // those with owned samples
};

}  // namespace mrmf
