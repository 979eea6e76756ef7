// Tools around the HDF5 library: its lock, RAII for its identifiers, its error text, and open files and the texts in
// them. Private to io/.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <hdf5.h>

#include "io/hdf5/file.hpp"
#include "io/values/element_type.hpp"
#include "kernels/errors.hpp"

namespace mrmf::h5 {

/// Held around every use of the library. Threads read data ahead, and parallel builds of HDF5 have one state per
/// process without a lock of their own. The same thread may take it again. Collective calls may be made under it: a
/// thread that waits for it never holds up another rank.
class Lock {
 public:
  Lock() : held_(mutex()) {}

 private:
  /// Per process, as the library's state is.
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex one;
    return one;
  }
  std::scoped_lock<std::recursive_mutex> held_;
};

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
  /// False when the library could not close it (for a file: could not write its last bytes).
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

/// Switches off HDF5's own printing of errors: their text goes into our one-line messages.
void silence();

/// "HDF5 says: <the innermost message of the last failed call>", or "" when there is none. Every call of the library
/// clears the errors of the one before, even a close: ask before the next call.
std::string last_error();

/// Throws DataError("<what>; HDF5 says: ...").
[[noreturn]] void fail(const std::string& what);

inline void require(bool succeeded, const std::string& what) {
  if (!succeeded) fail(what);
}

/// File access without locks, which network file systems often refuse, even to readers.
/// Files are plain ones, so that they can also be read without the library.
Properties file_access();

/// File access for writing, without locks, in the formats of one fixed library version, whichever library writes.
Properties write_access();

/// Opens a file for reading; invalid where it cannot be, and then `reason` is last_error(). A file that the library
/// itself has open, as a source of a virtual data set, is opened with the locks that it has there: the library takes no
/// others.
File open_to_read(const std::string& path, const Properties& access, std::string& reason);
/// Opens a file for reading with file_access(); DataError where it cannot be opened.
File open_to_read(const std::string& path);

}  // namespace mrmf::h5

namespace mrmf {

/// The state of an open file.
struct Hdf5File::State {
  std::string path;
  h5::File file;
  PackingRule packing;

  State(std::string where, h5::File opened, PackingRule rule)
      : path(std::move(where)), file(std::move(opened)), packing(rule) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  std::string at(const std::string& name) const { return path + ": data set '" + name + "'"; }
};

namespace h5 {

struct ContiguousBox;

/// The string that an attribute of an open object holds. `what` is the object, for messages.
std::string attribute_text(hid_t object, const std::string& name, const std::string& what);
/// DataError that says what is wrong with a file that should be readable. On one rank.
void check_readable(const std::string& path);
/// The names of a group's data sets, those that links lead to included. Alphabetical.
std::vector<std::string> dataset_names(hid_t file, const std::string& group);
/// Texts of an array or attribute, without what fills them up at the end.
struct StoredWords {
  std::vector<Index> shape;
  std::vector<std::string> words;
};
/// None where it does not hold texts.
std::optional<StoredWords> words_of(const Dataset& dataset, const std::string& what);
std::optional<StoredWords> words_of(const Attribute& attribute, const std::string& what);
/// The axes of a data set of texts; none where it does not hold texts. Reads none.
std::optional<std::vector<Index>> shape_of_words(const Dataset& dataset);
/// The texts of rows [first, first + count) along the first axis, row-major.
std::vector<std::string> words_of_rows(const Dataset& dataset, Index first, Index count, const std::string& what);
/// What the attributes of an open object are called; alphabetical.
std::vector<std::string> attribute_names(hid_t object);
/// The text of an attribute; "" where it is not one text.
std::string text_of(const Attribute& attribute);
/// Selects a block in the file's space and returns the matching memory space.
Space select(hid_t file_space, const ContiguousBox& block);

}  // namespace h5

/// An open HDF5 file that the readers of its data sets share.
class DataFile {
 public:
  /// DataError that says what is wrong, as Hdf5File::open's.
  explicit DataFile(const std::string& path);
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  ~DataFile();

  const std::string& path() const { return path_; }
  /// Callers hold an h5::Lock while they use it.
  hid_t id() const { return file_.get(); }

 private:
  std::string path_;
  h5::File file_;
};

}  // namespace mrmf
