// Tools around the HDF5 library: its lock, RAII for its identifiers, its error text, open files and the texts in them;
// and what an array is: how its numbers are stored and what they are in memory, filters that pack its chunks, and what
// the attributes of netCDF and CF say of it. Private to io/.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/file.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"

namespace mrmf::h5 {

// Tools around the HDF5 library: its lock, RAII for its identifiers, its error text, and open files and the texts in
// them.

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

namespace mrmf::h5 {

// How numbers are stored in HDF5 files, and what they are in memory: types of elements, filters that pack chunks, and
// attributes that say what numbers mean.

/// What an element of a data set is in memory: one number, or several of one type.
struct Element {
  ElementType type = ElementType::other;  ///< the smallest of ours that holds all numbers of the file's
  /// Axes that an element adds to those of its data set: none of numbers, {2} of complex ones (real and imaginary
  /// part).
  std::vector<Index> axes;
};

/// The type in memory of numbers in any form that the library converts: integers and floats of any size, byte order and
/// number of bits (more than 64 bits become float64), enumerations, bit fields, complex numbers, and arrays of all
/// these.
Element element_of(hid_t file_type);

/// A user's name for any type: "64-bit integer", "complex float32", "string".
std::string describe(hid_t file_type);

/// The type as this machine holds it in memory, one number of Element::type after another; the library converts on the
/// way. Not of ElementType::other.
Type memory_type(hid_t file_type);

/// The type as our own files hold it: little-endian. Not of ElementType::other.
Type stored_type(ElementType type);

// Filters that pack the chunks of data sets.

/// Which filter of a data set the library does not have, and what to do: "is packed by filter 32015 (zstd), ...".
/// Nothing where it has all of them. With `used`, only if the first of the chunks went through it: what a filter did
/// not make smaller may be stored as it is.
std::optional<std::string> missing_filter(const Dataset& dataset, bool used);

/// DataError, as missing_filter() has it of a filter that was used. `what` is "<path>: data set '<name>'".
void require_filters(const Dataset& dataset, const std::string& what);

// The attributes of netCDF and CF that say what an array's numbers mean, and what an array is for.

/// What the attributes of an open data set say of its numbers, which the file holds as `stored`. `what` is "<path>:
/// data set '<name>'". Where there is no _FillValue, netCDF's own default counts as missing if it is the data set's
/// fill value, as in the files that netCDF writes: in floats and scaled numbers, not in plain integers, which are often
/// classes or names of things, nor in bytes and _Unsigned integers, of which netCDF4 for Python masks none. DataError
/// for attributes that are no numbers, or limits that leave none, or NaN, infinite or zero where that means nothing, or
/// as many numbers as are not wanted.
Packing packing_of(const Dataset& dataset, ElementType stored, const std::string& what);

/// The names of these attributes.
const std::vector<std::string>& packing_attributes();

/// What attributes say of the size of a data set's numbers, beside netCDF's.
struct NumbersSaid {
  std::string
      units;  ///< units_text() (io/values/packing_units.hpp), in one line: units, and scales that are not applied
  std::string not_applied;  ///< Packing::not_applied
};
/// With PackingRule::ignore, units alone. Opens the sources of a virtual data set, whose attributes are not applied
/// either.
NumbersSaid numbers_said(const Dataset& dataset, PackingRule rule);

/// What a data set or attribute of this type calls its numbers: an enumeration type does, and attributes of a data set.
/// There are no names where they cannot be read.
NumberNames number_names(hid_t object, hid_t type);

/// Whether an array is a dimension scale of HDF5, as the coordinates and dimensions of netCDF are: it numbers the
/// positions of other arrays, and holds no data.
bool is_dimension_scale(const Dataset& dataset, const std::string& what);

/// The dimension scales of each axis of a data set; none where they are unknown. They lie in the data set's own file.
std::vector<std::vector<ObjectIdentity>> scales_of_axes(const Dataset& dataset);
/// Calls `found` with each of these, open, and the number of its axis.
void for_each_scale(const Dataset& dataset, const std::function<void(std::size_t axis, const Object& scale)>& found);

// What netCDF and CF say of an array beside what its numbers mean: which dimensions it has, and whether it holds
// classes.

/// netCDF's numbers of dimensions, which are one file's own: that of the dimension that an array is, and those of its
/// axes. netCDF goes by the latter where an array has no list of its dimension scales.
struct NetcdfDimensions {
  std::optional<int> own{};
  std::vector<int> of_axes{};
};

/// Nothing where netCDF did not write the data set. DataError when it cannot be opened.
NetcdfDimensions netcdf_dimensions(const DataFile& file, const std::string& dataset);

/// What CF's attributes of an array say of other arrays, and whether it holds times. Nothing of damaged attributes.
ArrayRoles roles_of(const Dataset& dataset);

/// The attributes of CF by which an array says that its numbers are classes, or bits of several.
const std::vector<std::string>& flag_attributes();

/// By what a data set says that its numbers are classes or flags: "attribute 'flag_values'", "enumeration type"; ""
/// where it does not. DataError when it cannot be opened.
std::string classes_told(const DataFile& file, const std::string& dataset);

}  // namespace mrmf::h5
