// Rows of one data set of one file, in their own element type, read by any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// How rows get from the file into memory; `text` is for people.
struct ReadingWay {
  bool direct = false;  ///< with pread, beside HDF5 and without its lock
  std::string text;     ///< "contiguous", "chunked (3 rows a chunk)", "compressed (1 row a chunk)", ...
};

/// Bytes that HDF5 takes beside the rows it reads; none for data sets that are not chunked.
struct ChunkMemory {
  Index cache = 0;      ///< what each open data set keeps of unpacked chunks, if it may
  Index unpacking = 0;  ///< while a chunk is unpacked
  bool operator==(const ChunkMemory&) const = default;
};
constexpr Index kMostCached = Index{1} << 28;  ///< of unpacked chunks, in all data sets that are open at once

/// Keeps its file open. Contiguous data sets of this machine's byte order are read without HDF5, by many threads at
/// once; all others through HDF5, by one thread at a time.
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

}  // namespace mrmf
