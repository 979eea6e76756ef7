// RAII for HDF5's identifiers and the text of its last error. Private to io/hdf5_*.cpp.
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "kernels/check.hpp"

namespace mrmf::h5 {

/// Owns one HDF5 identifier; Close is the library's function for its kind.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  Handle(Handle&& other) noexcept : id_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = other.release();
    }
    return *this;
  }
  ~Handle() { close(); }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  hid_t release() { return std::exchange(id_, H5I_INVALID_HID); }
  /// False when the library could not close it (a file: its last bytes could not be written).
  bool close() { return id_ < 0 || Close(release()) >= 0; }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using File = Handle<H5Fclose>;
using Group = Handle<H5Gclose>;
using Dataset = Handle<H5Dclose>;
using Object = Handle<H5Oclose>;
using Attribute = Handle<H5Aclose>;
using Space = Handle<H5Sclose>;
using Type = Handle<H5Tclose>;
using Properties = Handle<H5Pclose>;
using Driver = Handle<H5FDunregister>;

/// Switches HDF5's own printing of errors off: their text goes into our one-line messages.
void silence();

/// "HDF5 says: <the innermost message of the last failed call>", or "" when it left none. Every call of the library, a
/// close included, starts with a clean slate: ask before the next one.
std::string last_error();

/// Throws DataError("<what>; HDF5 says: ...").
[[noreturn]] void fail(const std::string& what);

inline void require(bool succeeded, const std::string& what) {
  if (!succeeded) fail(what);
}

/// File access without locks, which network file systems often refuse, also to readers.
Properties file_access();

/// The same for a file being written, in the formats of one fixed library version whichever library writes.
Properties write_access();

}  // namespace mrmf::h5
