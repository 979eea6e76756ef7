// Parallel HDF5 with RAII and clear errors. hdf5.h stays behind io/*.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mpi/comm.hpp"

namespace mrmf {

/// Element types that files may hold. Reading converts all of them to float32.
enum class ElementType { float16, float32, float64, int16, uint16, other };
std::string to_string(ElementType type);

struct DatasetInfo {
  std::vector<Index> shape;
  ElementType type = ElementType::other;
  Index rows() const { return shape.empty() ? 0 : shape.front(); }
};

/// An open HDF5 file, for reading or for writing. Collective over the communicator it was opened with.
/// Errors are DataError: file, data set, what is wrong, what to do. All ranks throw when one of them fails.
class Hdf5File {
 public:
  /// Says apart: no such file, no permission, not an HDF5 file, truncated (with both sizes).
  static Hdf5File open(const std::string& path, const Comm& comm);
  /// Creates (truncates) `path`. Write to a temporary name beside the target and use commit() to rename it.
  static Hdf5File create(const std::string& path, const Comm& comm);
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  bool has(const std::string& dataset) const;
  std::vector<std::string> datasets() const;  ///< names of the root's data sets, for "there is ... instead"
  /// DataError when there is none of that name (names those there are).
  DatasetInfo info(const std::string& dataset) const;

  /// Rows [first, first + count) of the first axis as float32, row-major; independent per rank; splits reads at 1 GiB.
  void read_rows(const std::string& dataset, Index first, Index count, Span out) const;
  std::string read_text(const std::string& dataset) const;  ///< variable-length string of shape (1,)

  /// Collective: makes a contiguous data set of float32 (groups in the name are created). No fill values are written.
  void create_dataset(const std::string& name, const std::vector<Index>& shape);
  /// Independent per rank: rows [first, first + rows) from `values`.
  void write_rows(const std::string& name, Index first, ConstSpan values);
  /// Collective: a (1,) variable-length string.
  void write_text(const std::string& name, const std::string& text);
  /// Collective: a scalar string attribute of the root.
  void write_attribute(const std::string& name, const std::string& text);
  std::string read_attribute(const std::string& name) const;  ///< "" when there is none

  void close();

 private:
  struct State;
  explicit Hdf5File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

std::string hdf5_version();

}  // namespace mrmf
