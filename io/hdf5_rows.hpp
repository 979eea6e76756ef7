// An open data set as rows of elements in their own type. Private to io/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "io/hdf5_blocks.hpp"
#include "io/hdf5_library.hpp"
#include "io/row_reader.hpp"

namespace mrmf::h5 {

/// Opens a data set of a file; DataError when there is none of that name (names those there are and the nearest).
Dataset open_dataset(const std::string& path, hid_t file, const std::string& name);
std::vector<Index> shape_of(hid_t space);

/// How a data set lies in its file.
struct Storage {
  std::optional<Index> offset;  ///< where it begins, when it is one run of bytes as this machine holds them in memory
  bool contiguous = false, filtered = false;
  std::vector<Index> chunk;  ///< empty unless chunked
  Index element_bytes = 0;   ///< in the file
  ChunkMemory memory;
};

/// Callers hold a Lock while they use it.
class Rows {
 public:
  /// Keeps unpacked chunks of at most `most_cached` bytes. DataError when the data set is not there, not an array, or
  /// of a type that cannot be read.
  Rows(const std::string& path, hid_t file, const std::string& name, Index most_cached = kMostCached);

  ElementType type() const { return type_; }
  const std::vector<Index>& shape() const { return shape_; }
  const std::string& what() const { return what_; }  ///< "<path>: data set '<name>'"
  const Storage& storage() const { return storage_; }

  /// DataError when rows were never written (io/hdf5_written.hpp).
  void require_written() const;
  /// DataError when [first, first + count) is not there.
  void require(Index first, Index count) const;
  /// Reads a block as this machine holds its elements. DataError: which row cannot be read.
  void read(const Block& block, void* to) const;

 private:
  /// Why it cannot be read; none when it was.
  std::optional<std::string> try_read(const Block& block, void* to) const;

  Dataset dataset_;
  Space space_;
  Type memory_;
  ElementType type_ = ElementType::other;
  std::vector<Index> shape_;
  std::string path_, what_;
  Storage storage_;
};

}  // namespace mrmf::h5
