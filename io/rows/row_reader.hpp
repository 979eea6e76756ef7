// Rows of one data set of one file, read by any thread, and a cache of where the rows lie in files that have been
// opened before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Rows of one data set of one file, read by any thread.

/// How rows get from the file into memory; `text` is for people.
struct ReadPath {
  bool direct = false;  ///< with pread, without HDF5 and its lock
  std::string text;     ///< "contiguous", "chunked (3 rows a chunk)", "compressed (1 row a chunk)", ...
  bool operator==(const ReadPath&) const = default;
};

/// A part of each row: a range along each axis of the data set but the first.
struct RowBox {
  std::vector<Index> first, count;
  bool operator==(const RowBox&) const = default;
};

/// Copies the box's part of a row, which is of an array of this shape (rows first), and lies whole at `row`. Returns
/// the end of the copy.
std::byte* copy_box(const std::vector<Index>& shape, Index element_bytes, const RowBox& box, const std::byte* row,
                    std::byte* to);

class DataFile;

/// Rows of numbers that lie in their own file as one run of bytes, or are an attribute, as they were found there. With
/// that they are read again without a look at the file's headers, as long as the file is what it was.
struct PlainRows {
  /// What is the same in files that are alike.
  struct Form {
    Packing packing;
    std::vector<Index> shape;
    std::string units;
    ReadPath way;
    bool whole = false;
    NumberNames names{};
    bool operator==(const Form&) const = default;
  };
  std::shared_ptr<const Form> form;
  FileState state;
  Index offset = 0;                 ///< offset of the first byte
  std::uint64_t address = 0;        ///< address of the array's object
  std::vector<std::byte> values{};  ///< values of an attribute: all of them; else empty
};

/// Rows of one data set of one file, in their own element type or unpacked, read by any thread. Keeps its file open.
/// Contiguous data sets in this machine's own format are read without HDF5, by many threads at once. All others are
/// read through HDF5, by one thread at a time.
class RowReader {
 public:
  /// DataError when file or data set cannot be opened.
  RowReader(const std::string& path, const std::string& dataset, const RowsOpening& opening = {});
  /// Reads from a file that is open already and that others use, too.
  RowReader(std::shared_ptr<const DataFile> file, const std::string& dataset, const RowsOpening& opening = {});
  /// A reader of rows that were plain() before, without asking HDF5 again; none where the file is not what it was then,
  /// or cannot be opened.
  static std::optional<RowReader> again(const std::string& path, const std::string& dataset, const PlainRows& known);
  RowReader(RowReader&&) noexcept;
  RowReader& operator=(RowReader&&) noexcept;
  ~RowReader();

  ElementType type() const;                 ///< type of the numbers that are read
  const Packing& packing() const;           ///< how they come from those in the file
  const std::vector<Index>& shape() const;  ///< rows first
  const std::string& units() const;         ///< of the array, as Rows have it; "" where it says nothing
  const NumberNames& names() const;         ///< what its numbers are called
  const std::string& where() const;         ///< "<path>: data set '<name>'", for messages
  Index row_bytes() const;
  ReadPath way() const;
  ChunkMemory chunk_memory() const;
  bool elsewhere() const;                ///< as Storage's (io/hdf5/rows.hpp)
  const ObjectIdentity& object() const;  ///< the data set
  /// With which they can be read again(); nothing where they cannot, as those that the library reads.
  std::optional<PlainRows> plain() const;

  /// DataError with the first row when rows were never written, or come from a missing file. Reads no rows.
  void require_written() const;
  /// Reads rows [first, first + count) into count * row_bytes() bytes. DataError: file, data set, row, what is wrong.
  void read(Index first, Index count, std::byte* to) const;
  /// Reads a box of each of these rows, one row after the other.
  void read(Index first, Index count, const RowBox& box, std::byte* to) const;

 private:
  struct State;
  explicit RowReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where the rows of files lie that have been opened before. Private to io/.

/// Where the rows of arrays lie that are read without HDF5, and the values of attributes: so that of a file whose
/// headers this rank has read once, they are not read again. Takes some 200 bytes for each. On any thread.
class RowHeaderCache {
 public:
  /// How an array is asked for.
  struct Name {
    const std::string& path;
    const std::string& array;
    bool whole;
    PackingRule packing;
  };
  std::optional<PlainRows> find(const Name& name) const;
  void keep(const Name& name, PlainRows rows);

 private:
  struct Known {
    std::string array;
    PackingRule packing;
    PlainRows rows;
  };
  static bool is(const Known& known, const Name& name);

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::vector<Known>> files_;
  std::vector<std::shared_ptr<const PlainRows::Form>> forms_;  // the last few that were seen
};

}  // namespace mrmf
