// An open data set as rows of elements in their own type, read in transfers of limited size. Private to io/.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/rows/dataset.hpp"
#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// A box of a data set that is one consecutive run of elements.
struct ContiguousBox {
  std::vector<Index> first, count;  ///< per axis
  Index elements = 0;
};

/// Rows [first, first + count) of a data set of this shape, in storage order, as blocks of at most `limit` elements. A
/// row that exceeds the limit is cut along its own first axis, and so on.
std::vector<ContiguousBox> blocks(const std::vector<Index>& shape, Index first, Index count, Index limit);

/// A box of consecutive elements as blocks of at most `limit`. Such a box has one index on the first axes, a range on
/// the next, and all of the rest.
std::vector<ContiguousBox> blocks(const ContiguousBox& box, Index limit);

/// The number of chunks that a box overlaps; the largest Index if there are more.
Index chunks_of(const ContiguousBox& box, const std::vector<Index>& chunk);

/// Calls visit(part) for boxes that together make up `box`, cut along chunk borders. Each overlaps at most `most`
/// chunks. Their elements are not consecutive.
void for_each_chunk_group(const ContiguousBox& box, const std::vector<Index>& chunk, Index most,
                          const std::function<void(const ContiguousBox&)>& visit);

/// Opens a data set of a file. DataError when there is none of that name (lists those there are, and the nearest).
Dataset open_dataset(const std::string& path, hid_t file, const std::string& name);
/// The axes of a data set, with those of its elements behind them; none of a single one; one of length 0 where it holds
/// nothing.
std::vector<Index> shape_of(hid_t space, const Element& element);

/// How a data set lies in its file.
struct Storage {
  std::optional<Index> offset;  ///< where stored numbers begin in the file in which they lie (a link may have led
                                ///< there), if they are one run of bytes in this machine's own format
  bool contiguous = false, filtered = false;
  bool elsewhere = false;    ///< it lies in another file than the one that was named, or is put together of others
  std::vector<Index> chunk;  ///< empty unless chunked; without the axes of elements
  Index element_bytes = 0;   ///< in the file
  ChunkMemory memory;
};

/// An open data set, as rows along its first axis; or as one row, with an axis of 1 before its own, below and in its
/// Storage. Callers hold a Lock while they use it.
class Rows {
 public:
  /// Keeps at most `most_cached` bytes of unpacked chunks. DataError when the data set is missing, not an array, or of
  /// an unreadable type.
  Rows(const std::string& path, hid_t file, const std::string& name, const RowsOpening& opening = {});

  ElementType type() const { return packing_.type(); }  ///< type of the numbers from read()
  const Packing& packing() const { return packing_; }
  const std::vector<Index>& shape() const { return shape_; }
  const std::string& what() const { return what_; }  ///< "<path>: data set '<name>'"
  const Storage& storage() const { return storage_; }

  /// DataError when rows were never written (io/hdf5/links.hpp).
  void require_written() const;
  /// DataError when rows [first, first + count) do not all exist.
  void require(Index first, Index count) const;
  /// What it says of its units, and of scales that are not applied (io/values/packing_units.hpp); "" where it says
  /// nothing.
  const std::string& units() const { return units_; }
  /// What it says of its own numbers.
  NumberNames number_names() const;
  ObjectIdentity object() const;
  /// The file in which `storage().offset` is, for reading without the library; nothing where that is not to be done.
  std::unique_ptr<InputFile> plain_file() const;
  /// Reads a block, unpacked, in this machine's own format. Where numbers cannot be unpacked in place, as many as the
  /// block has are in memory twice. DataError names the row that cannot be read.
  void read(const ContiguousBox& block, void* to) const;

 private:
  void read_stored(const ContiguousBox& block, void* to) const;
  /// Blocks without the axes of elements, which the library reads whole.
  void read_elements(const ContiguousBox& block, void* to) const;
  /// Why the block cannot be read; nothing when it was.
  std::optional<std::string> try_read(const ContiguousBox& block, void* to) const;
  /// A block of rows in the data set's own axes.
  ContiguousBox in_file(ContiguousBox block) const;
  /// Selects a block of rows in the file's space and returns the matching memory space.
  Space selected(const ContiguousBox& block) const;

  Dataset dataset_;
  Space space_;
  bool whole_;
  Type memory_;
  Packing packing_;
  std::string units_;
  Element element_;
  std::vector<Index> shape_;
  std::string what_;
  Storage storage_;
};

}  // namespace mrmf::h5
