// What coarse copies are made of, beside the data sets that are averaged. Private to io/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/names.hpp"
#include "io/values/axis_order.hpp"

namespace mrmf {

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
