// HDF5 files written through OutputFile, and copies of objects from one file into another. Private to io/.
//
// The library writes late: small data sets when they are closed, its own structures when the file is. When such a write
// fails, some of its closing functions report nothing, and later ones crash. So the file driver is ours: it never fails
// towards the library, remembers the first error, and check() throws it.
#pragma once

#include <exception>
#include <map>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"

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

// Copies of data sets, attributes and names from one HDF5 file into another.

/// What a copy has not got of its source.
struct LeftOut {
  std::map<std::string, std::vector<std::string>> references;  ///< attributes that hold them, and of which objects
  std::vector<std::string> others;                             ///< a line each
};
/// The same for people, a line each.
std::vector<std::string> texts_of(const LeftOut& left_out);

/// Source and target of a copy; the paths are for messages.
struct CopyLocations {
  hid_t from, to;
  std::string source, target;
  LeftOut& left_out;  ///< what is left out is added
};

/// Copies a data set of any type with its layout, filters, parent groups and attributes but for those named. Values
/// that lie in other files (of a virtual data set, or raw bytes beside the file) are copied too: from another folder
/// their names would lead nowhere. References are left empty. H5Ocopy is no option: in HDF5 1.10 it crashes when the
/// original cannot be read.
void copy_dataset(const CopyLocations& locations, const std::string& name, const std::vector<std::string>& except = {});

/// Copies the attributes of a group or data set that both files have, except references, those already there, and those
/// named.
void copy_attributes(const CopyLocations& locations, const std::string& object,
                     const std::vector<std::string>& except = {});

/// Makes the groups that the copy lacks and gives all of them their attributes; makes the further names that it lacks:
/// hard links as such where their data set is there, soft links as they are.
void copy_names(const CopyLocations& locations, const FileNames& names);

}  // namespace mrmf::h5
