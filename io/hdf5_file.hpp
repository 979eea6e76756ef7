// HDF5 with RAII and clear errors. hdf5.h stays behind io/*.cpp.
#pragma once

#include <memory>
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

/// An open HDF5 file, for reading (io/hdf5_output.hpp writes). Errors are DataError: file, data set, what is wrong,
/// what to do.
///
/// open() is collective and fails on all ranks when it fails on one. After that every rank reads by itself (contiguous
/// rows need no other rank), so an error is thrown on the rank that meets it; collective_try() of mpi/comm.hpp makes it
/// everyone's.
class Hdf5File {
 public:
  /// Says apart: no such file, no permission, not an HDF5 file, truncated (with both sizes).
  static Hdf5File open(const std::string& path, const Comm& comm);
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

  std::string read_attribute(const std::string& name) const;  ///< "" when there is none

 private:
  struct State;
  explicit Hdf5File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

std::string hdf5_version();

}  // namespace mrmf
