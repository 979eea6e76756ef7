// HDF5 files written through OutputFile. Private to io/.
//
// The library writes late: small data sets when they are closed, its own structures when the file is. When such a write
// fails, some of its closing functions report nothing, and later ones crash. So the file driver is ours: it never fails
// towards the library, remembers the first error, and check() throws it.
#pragma once

#include <exception>
#include <map>
#include <vector>

#include "io/hdf5_library.hpp"
#include "io/output_file.hpp"

namespace mrmf::h5 {

/// The file that the driver writes into. Must outlive the library's file.
class DriverFile {
 public:
  explicit DriverFile(OutputFile& output) : output_(&output) {}
  DriverFile(const DriverFile&) = delete;
  DriverFile& operator=(const DriverFile&) = delete;

  /// An empty HDF5 file, in the formats of one fixed library version.
  File create();
  /// Throws the first error that the driver met, if any.
  void check() const;

  // The library's callbacks. None throws.
  void write(bool data, haddr_t at, std::span<const std::byte> bytes) noexcept;
  void read(haddr_t at, std::span<std::byte> to) noexcept;
  void extend(haddr_t end) noexcept;
  void close() noexcept;
  haddr_t end() const { return end_; }

 private:
  template <typename Action>
  void remember(const Action& action) noexcept;

  OutputFile* output_;
  std::map<haddr_t, std::vector<std::byte>> structures_;  // the library's own, until the file is closed
  haddr_t end_ = 0;
  std::exception_ptr error_;
};

}  // namespace mrmf::h5
