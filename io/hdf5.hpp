// Parallel HDF5 with RAII and clear errors. hdf5.h stays behind io/*.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/element.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

struct DatasetInfo {
  std::vector<Index> shape;
  ElementType type = ElementType::other;
  std::string type_name;  ///< the file's own type in words, also for those that cannot be read
  Index rows() const { return shape.empty() ? 0 : shape.front(); }
};

/// An open HDF5 file, for reading or for writing. Errors are DataError: file, data set, what is wrong, what to do.
///
/// Reading: open() is collective and fails on all ranks when it fails on one. After that every rank reads by itself
/// (contiguous rows need no other rank), so an error is thrown on the rank that meets it; together() of
/// io/agreement.hpp makes it everyone's.
/// Writing goes through MPI-IO where there are several ranks, and is collective but for write_rows() and
/// write_planes(); collective members fail on all ranks alike. The bytes of the file are the same for any number of
/// ranks. When an exception unwinds past a file that several ranks are writing, the file is abandoned rather than
/// closed: closing would wait for ranks that are elsewhere.
class Hdf5File {
 public:
  /// Says apart: no such file, no permission, not an HDF5 file, truncated (with both sizes).
  static Hdf5File open(const std::string& path, const Comm& comm);
  /// Creates (truncates) `path`; PartialFile of io/atomic_file.hpp gives a name to write under until all is well.
  static Hdf5File create(const std::string& path, const Comm& comm);
  /// A file in this rank's memory, to be written by image() and the system's own calls. `name` is for messages. `size`:
  /// bytes that it takes at once, and again whenever they are not enough; best a little more than it will hold.
  static Hdf5File create_in_memory(const std::string& name, std::size_t size);
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  /// Data sets are named by path ("a" or "group/a"), here and below.
  bool has(const std::string& dataset) const;
  std::vector<std::string> datasets() const;  ///< names of the root's data sets, for "there is ... instead"
  /// DataError when there is none of that name (names those there are and the nearest), or it is larger than can be.
  DatasetInfo info(const std::string& dataset) const;
  /// DataError with the first row when some were never written, or come from a file that is not there: HDF5 would give
  /// its fill value for them. Reads no rows.
  void require_written(const std::string& dataset) const;

  /// Rows [first, first + count) of the first axis as float32, row-major; independent per rank; splits reads at 1 GiB.
  /// Either byte order is read. int16 and uint16 give their numbers unscaled; float64 is rounded.
  void read_rows(const std::string& dataset, Index first, Index count, Span out) const;
  std::string read_text(const std::string& dataset) const;  ///< one string, of variable or fixed length

  /// Collective: makes a contiguous data set of float32 or uint16 (groups in the name are created). No fill values are
  /// written: whoever creates it writes every row.
  void create_dataset(const std::string& name, const std::vector<Index>& shape,
                      ElementType type = ElementType::float32);
  /// Independent per rank: rows [first, first + rows) from `values`, of the data set's own type.
  void write_rows(const std::string& name, Index first, ConstSpan values);
  void write_rows(const std::string& name, Index first, std::span<const std::uint16_t> values);
  /// The same for planes [first, first + planes) of one row's first axis, from `values`.
  void write_planes(const std::string& name, Index row, Index first, std::span<const std::uint16_t> values);
  /// Collective: a (1,) variable-length string; the root's text counts. It is in the file after close().
  void write_text(const std::string& name, const std::string& text);
  /// Collective: a scalar string attribute of the root, below 64 KiB.
  void write_attribute(const std::string& name, const std::string& text);
  std::string read_attribute(const std::string& name) const;  ///< "" when there is none

  /// The bytes of a file in memory, with all that was written to it; the last thing that is done with it.
  std::string image();

  /// Collective when writing; the destructor does the same but keeps errors to itself.
  void close();

 private:
  struct State;
  explicit Hdf5File(std::unique_ptr<State> state);
  template <typename Element>
  void write_elements(const std::string& name, std::initializer_list<Index> first, std::span<const Element> values);
  std::unique_ptr<State> state_;
};

std::string hdf5_version();

}  // namespace mrmf
