// HDF5 files for reading, with RAII and clear errors, and the names that a file has for its groups and data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// The names that a file has for its groups and data sets: an object may have several.

/// What tells an object of a file from all others, under whatever name: its file, and its address there.
using ObjectIdentity = std::pair<FileIdentity, std::uint64_t>;

/// A name beside the first one of an object.
struct FurtherName {
  std::string name;
  std::string of;  ///< the first name; of a soft link in the file itself what it holds, even where that leads nowhere
  bool soft = false;  ///< a soft link; else a hard one, or a link to another file, whose object has a name here already
};

/// A link that leads nowhere, or a data set that nobody can read (leave_out_unreadable()).
struct BrokenLink {
  std::string name, why;                                        ///< "leads to 'x' of b.h5, which is not there; ..."
  std::string text() const { return "'" + name + "' " + why; }  ///< for people
};

/// All names of a file. The first name of an object in the file itself is one with hard links alone; what lies in other
/// files has the name of the link that leads there.
struct FileNames {
  std::vector<std::string> datasets;  ///< first names, alphabetical; all without a slash in front
  std::vector<std::string> groups;    ///< first names of all but the root, parents before children
  std::vector<std::string> types;     ///< first names of named types
  std::vector<FurtherName> further;
  std::vector<BrokenLink> broken;
  std::map<ObjectIdentity, std::string> first;  ///< the first name of every object
};

/// Looks into all groups, and into other files as far as links lead there. DataError when the file cannot be opened, or
/// is damaged.
FileNames names_of(const std::string& path);

/// Moves data sets that nobody can read to the broken links: those behind a filter that is not there, and those whose
/// values come from what is no file, or from themselves. Those of `kept` names stay, for their reader to be told.
/// Reads no values. DataError when the file cannot be opened.
void leave_out_unreadable(FileNames& names, const std::string& path,
                          const std::function<bool(const std::string&)>& kept = {});

/// The first name of what this name leads to; the name itself where that is no object of the file. DataError when the
/// file cannot be opened, or a link leads to what is no file.
std::string first_name(const FileNames& names, const std::string& path, const std::string& name);

/// The paths of all data sets of a file, including those in groups and behind links, each by its first name.
/// Alphabetical. DataError when it cannot be opened.
std::vector<std::string> all_datasets(const std::string& path);

// HDF5 files for reading, with RAII and clear errors.

/// What the attributes of an array say, as CF has them, of itself and of others. Those are named as the attributes name
/// them: they lie in the array's own group or one around it, or, with a "/" in front, where a path from the root leads.
struct ArrayRoles {
  std::vector<std::string> bounds{};       ///< its cells' bounds, where it is a coordinate: `bounds` and `climatology`
  std::vector<std::string> coordinates{};  ///< the coordinates of its numbers: `coordinates`
  std::vector<std::string> ancillary{};    ///< what is said of its numbers, as marks of their quality are:
                                           ///< `ancillary_variables`
  std::string times{};                     ///< `units`, where they are of times: "days since 2000-01-01"
};

struct DatasetInfo {
  std::vector<Index> shape;
  ElementType type = ElementType::other;    ///< type of the numbers that are read (io/values/packing_units.hpp)
  std::string type_name;                    ///< the file's own type in words, also for unreadable types
  bool words = false;                       ///< texts, of variable or fixed length
  bool whole = false;                       ///< whole numbers: integers that are not scaled
  ElementType stored = ElementType::other;  ///< in the file
  std::string packing{};                    ///< what is applied to its numbers (Packing::text)
  bool may_miss = false;                    ///< attributes tell what is missing (Packing::declared)
  bool unclear = false;  ///< attributes say nothing that could be applied: this is of stored numbers, and whoever reads
                         ///< them gets the DataError
  std::string file{};    ///< the path of the file in which it lies: another one behind a link
  bool scale = false;    ///< a dimension scale, or netCDF dimension: it numbers the positions of other arrays
  ArrayRoles roles{};
  Index rows() const { return shape.empty() ? 0 : shape.front(); }
};

/// An open HDF5 file, for reading (io/hdf5/output.hpp writes). Errors are DataError: file, data set, what is wrong,
/// what to do.
///
/// open() is collective and fails on all ranks when it fails on one. After that every rank reads independently
/// (contiguous rows need no other rank), so an error is thrown on its rank alone; collective_try() of mpi/comm.hpp
/// throws it on all.
class Hdf5File {
 public:
  /// Distinguishes: no such file, no permission, not an HDF5 file, truncated (with both sizes).
  static Hdf5File open(const std::string& path, const Comm& comm, PackingRule packing = PackingRule::apply);
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;
  ~Hdf5File();

  /// Data sets are named by path ("a" or "group/a"), here and below.
  bool has(const std::string& dataset) const;
  std::vector<std::string> datasets() const;  ///< data sets of the root group, for "there is ... instead"
  /// DataError when there is none of that name (lists those there are, and the nearest), or when it is too large.
  DatasetInfo info(const std::string& dataset) const;
  /// The dimension scales of each axis of a data set, as many lists as it has axes in the file; none where they are
  /// unknown.
  std::vector<std::vector<ObjectIdentity>> scales_of_axes(const std::string& dataset) const;
  /// DataError with the first row when rows were never written, or come from a missing file. HDF5 would return its fill
  /// value for them. Reads no rows.
  void require_written(const std::string& dataset) const;

  /// Rows [first, first + count) of the first axis as float32, row-major; independent per rank; splits reads at 1 GiB.
  /// Reads either byte order. Packed numbers are unpacked, unless they are to be read as they are stored; float64 is
  /// rounded.
  void read_rows(const std::string& dataset, Index first, Index count, Span out) const;
  std::string read_text(const std::string& dataset) const;  ///< one string, of variable or fixed length
  /// The texts of rows [first, first + count), row-major, without blanks or zeros at their ends. Independent per rank.
  std::vector<std::string> read_words(const std::string& dataset, Index first, Index count) const;

  std::string read_attribute(const std::string& name) const;  ///< "" when there is none

 private:
  struct State;
  explicit Hdf5File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// What a command reads that reads all of these files. To the files come those that virtual and external data sets, or
/// links, take values from. For require_output(): while `target` does not exist, nothing is looked up. Of the rows of a
/// data set alone, RowSources::all_inputs() tells.
std::vector<std::string> all_inputs(const std::string& target, std::vector<std::string> files);

std::string hdf5_version();

/// All numbers of a data set as they are stored, row-major.
struct DatasetNumbers {
  std::vector<Index> shape;
  std::vector<double> values;
};
/// On any thread. DataError where the file cannot be opened, or the data set holds no numbers or more than 2^29.
DatasetNumbers read_stored_numbers(const std::string& path, const std::string& dataset);

/// What a file says of the axes of a data set, by its dimension scales and by names that stand in an attribute
/// (h5py's dims[i].label). Nothing of damaged attributes. DataError when it cannot be opened.
std::vector<NamedAxis> named_axes(const std::string& path, const std::string& dataset);

/// Name and kind of every attribute, by name. `object` is a path; "": the file's root. None where it is not there.
/// DataError when the file cannot be opened.
std::vector<std::pair<std::string, DatasetInfo>> attributes_of(const std::string& path, const std::string& object);

}  // namespace mrmf
