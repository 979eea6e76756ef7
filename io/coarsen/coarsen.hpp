// Data at a lower resolution: samples in memory, and copies of whole files with their coordinates.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/sample_order.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/element_type.hpp"

namespace mrmf {

/// The shape of a sample whose axes are averaged by these factors (paper section 3.1).
/// ConfigError when a factor is below 1 or does not divide its axis, or when an unused axis has one other than 1; it
/// says what they are.
Shape coarse_shape(const Shape& sample, const Extent& factor, const std::string& what = "samples");

/// Samples in memory, one after the other.
struct StoredSamples {
  ElementType type = ElementType::float32;
  Shape sample;  ///< shape of one of them, channels-last
  const void* data = nullptr;
};

/// Averages blocks of factor[0] x factor[1] x factor[2] positions as float32, channel by channel: the mean of what is
/// there. NaN is missing; where a block has nothing else, it is NaN. Makes lines [first,
/// first + count) of the coarse data; a line runs along the last axis, and all samples are counted. `coarse` begins
/// with the first of these lines. Sums in double, always in the same order. On the calling thread.
void coarsen_lines(const StoredSamples& fine, const Extent& factor, Range lines, float* coarse);

/// What coarse_copy() is asked for.
struct CoarseCopy {
  std::string source, target;
  Replace replace = Replace::nothing;  ///< what may become of an existing target
  Extent factor{1, 1, 1};
  int axes = 1;  ///< axes of positions
  /// files or groups: each of the data sets to average is one sample, without an axis that counts samples.
  RowsBy rows = RowsBy::axis;
  std::string
      axis_names;  ///< axis names of the data sets to average, for parse_axes(); empty: samples first, channels last
  std::vector<std::string> samples;  ///< data sets to average, of every group with RowsBy::groups; empty: all of
                                     ///< floats or 16-bit integers with so many axes that are no dimension scales
  ElementType type = ElementType::float32;  ///< or uint16: means are rounded to the nearest integer
  MissingRule missing = MissingRule::refuse;
  PackingRule packing = PackingRule::apply;  ///< packing of the data sets to average
  std::string program;                       ///< name and version, for the provenance

  bool whole() const { return rows != RowsBy::axis; }  ///< each data set is one sample
};

/// What was written.
struct CoarseFile {
  std::unique_ptr<FinishedFile> file;  ///< the copy, which is not yet in its place; on the root
  std::vector<std::string> samples;
  Index count = 0;                 ///< samples in all of these data sets together
  Index bytes = 0;                 ///< bytes of the target
  std::vector<std::string> notes;  ///< what became of arrays that number averaged positions, and what the target lacks
                                   ///< of the source, a line each; the root knows
};

/// Collective; each rank averages its part of the rows. The target has the source's data sets: averaged samples
/// (contiguous, their axes in the same order) and all others unchanged, but for dimension scales of averaged axes (the
/// coordinates of netCDF): these are averaged along, or, where they cannot be, left out. It has the source's groups,
/// and its attributes except references, and except those of packing where this was applied: then a copy's missing
/// numbers are NaN, which its _FillValue says. A further name of a data set is a link, as in the source; what lies
/// behind a link to another file is copied. The root group's attribute "coarsened" is JSON with the source's name, size
/// and shapes (of the first data sets, where they are very many), the factor, the names of the axes if given, and the
/// program. The bytes are the same for any number of ranks, and the target appears whole, once the root puts it in its
/// place, or not at all. DataError or
/// ConfigError on every rank: nothing to average, a factor that does not divide, channels between positions, a shape
/// that looks channels first without names of its axes, missing rows of a data set to average, infinity, NaN where no
/// attribute says that numbers may be missing, a mean that uint16 cannot hold.
CoarseFile coarse_copy(const CoarseCopy& copy, Comm& world);

/// What coarse_copy() would refuse by the headers of any of these files, before the first is copied; `copy.source` does
/// not count. Where files or groups are the samples, these are samples of one set: DataError, too, for the first whose
/// data set has other positions, channels or units than that of the first of all, with both. On one rank.
void require_copies(CoarseCopy copy, const std::vector<std::string>& sources);

/// The data sets to average: those asked for, or those with the right number of axes. `others` gets the rest. DataError
/// or ConfigError as coarse_copy()'s. Not collective.
std::vector<std::string> samples_to_average(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                            const FileNames& names, std::vector<std::string>& others);

// Coordinates of coarse copies: dimension scales of averaged axes.

/// A dimension scale of an averaged axis, averaged as the axis is.
struct CoarseScale {
  std::string name;
  std::vector<double> means;
};

/// Takes the dimension scales of averaged axes from `others`, the data sets that would be copied: a coordinate that
/// kept its length would number positions that are no more. Those of one number per position are averaged. `made` has
/// the names of the averaged samples, and gets a note for each; `names` are the source's. Not collective.
std::vector<CoarseScale> averaged_scales(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                         const FileNames& names, CoarseFile& made, std::vector<std::string>& others);

// What coarse copies are made of, beside the data sets that are averaged. Private to io/.

/// All that the copy may have of the source: what nobody can read is left out where --samples says what is averaged,
/// and does not name it. DataError where it says nothing.
FileNames names_to_copy(const CoarseCopy& copy);

/// "'a', 'b', 'c', 'd' and 3 more".
std::string listed_names(const std::vector<std::string>& names);

/// Data sets that say that they hold classes, whose means mean nothing.
class ClassesFound {
 public:
  /// `told` is what h5::classes_told() says.
  void add(const std::string& name, const std::string& told, bool averaged) {
    (averaged ? averaged_ : copied_)[told].push_back(name);
  }
  /// Adds a line for those that are copied, and one for those that are averaged because they were asked for.
  void tell(std::vector<std::string>& notes) const;

 private:
  std::map<std::string, std::vector<std::string>> copied_, averaged_;  // by what tells it
};

/// Those among the data sets that are averaged, and among those that would be averaged but for that.
ClassesFound find_classes(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                          const std::vector<std::string>& averaged, const std::vector<std::string>& others);

/// By data set, the attributes that its copy does not get.
using AttributesLeftOut = std::map<std::string, std::vector<std::string>>;

/// netCDF's numbers of dimensions, where they would tie an array to dimensions that the copy has with another length,
/// or not at all: readers would cut the array off. `made` has the names of the averaged samples, and gets a note that
/// names these arrays; `others` are copied as they are. Not collective.
AttributesLeftOut untied(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source, const FileNames& names,
                         const std::vector<CoarseScale>& scales, CoarseFile& made,
                         const std::vector<std::string>& others);

}  // namespace mrmf
