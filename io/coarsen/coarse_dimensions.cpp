// What becomes of dimensions and coordinates in coarse copies.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/coarsen/coarse_parts.hpp"
#include "io/files/input_file.hpp"
#include "io/hdf5/conventions.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/names.hpp"
#include "io/rows/row_reader.hpp"
#include "io/values/axis_order.hpp"

namespace mrmf {
namespace {

std::vector<double> means_of(const RowReader& reader, Index factor) {
  const Index rows = reader.shape().front();
  std::vector<std::byte> raw(static_cast<std::size_t>(rows * reader.row_bytes()));
  reader.read(0, rows, raw.data());
  std::vector<double> means(static_cast<std::size_t>(rows / factor));
  for (Index i = 0; i < rows; ++i)
    means[static_cast<std::size_t>(i / factor)] +=
        number_at(reader.type(), raw.data(), i) / static_cast<double>(factor);
  return means;
}

/// Which dimension scales number the axes of a file's arrays.
class AxisScales {
 public:
  AxisScales(const std::string& path, const Hdf5File& source, const FileNames& names) : file_(path), source_(source) {
    const std::set<std::string> arrays(names.datasets.begin(), names.datasets.end());
    for (const auto& [object, name] : names.first) {
      if (!arrays.contains(name)) continue;
      files_.emplace(name, object.first);
      const h5::NetcdfDimensions numbers = h5::netcdf_dimensions(file_, name);
      if (numbers.own) dimensions_.emplace(std::pair(object.first, *numbers.own), object);
    }
  }

  /// As HDF5 lists them with the array or, where there is no such list, as in our own copies, as netCDF numbers them.
  std::vector<std::vector<ObjectIdentity>> of(const std::string& array) const {
    std::vector<std::vector<ObjectIdentity>> scales = source_.scales_of_axes(array);
    if (std::ranges::any_of(scales, [](const auto& list) { return !list.empty(); })) return scales;
    const std::vector<std::optional<ObjectIdentity>> numbered = numbered_of(array);
    for (std::size_t axis = 0; axis < std::min(scales.size(), numbered.size()); ++axis)
      if (numbered[axis]) scales[axis].push_back(*numbered[axis]);
    return scales;
  }

  /// The dimensions of an array's axes by netCDF's numbers; empty where it has none. A dimension may not be there.
  std::vector<std::optional<ObjectIdentity>> numbered_of(const std::string& array) const {
    std::vector<std::optional<ObjectIdentity>> found;
    for (const int number : h5::netcdf_dimensions(file_, array).of_axes) {
      const auto known = dimensions_.find({file_of(array), number});
      found.push_back(known == dimensions_.end() ? std::nullopt : std::optional(known->second));
    }
    return found;
  }

  FileIdentity file_of(const std::string& array) const {
    const auto known = files_.find(array);
    return known == files_.end() ? FileIdentity{} : known->second;
  }

 private:
  DataFile file_;
  const Hdf5File& source_;
  std::map<std::string, FileIdentity> files_;  // in which each array lies
  std::map<std::pair<FileIdentity, int>, ObjectIdentity> dimensions_;
};

/// By how much an axis of the averaged data sets becomes shorter, as the file counts its axes.
Index factor_of_axis(const CoarseCopy& copy, const AxisOrder& order, std::size_t file_axis) {
  const int rows = copy.whole() ? 0 : 1;  // axes that count samples
  const int axis = static_cast<int>(file_axis) - rows;
  if (axis < 0 || axis >= order.axes || axis == order.channel) return 1;  // the last may be those of complex numbers
  const int position = axis - (order.channel >= 0 && order.channel < axis ? 1 : 0);
  return *(copy.factor.end() - copy.axes + position);
}

/// By scale, how many positions become one along the axes that it numbers; 0 where these differ.
std::map<ObjectIdentity, Index> factors_of_scales(const CoarseCopy& copy, const AxisOrder& order,
                                                  const AxisScales& scales, const std::vector<std::string>& all) {
  std::map<ObjectIdentity, Index> factors;
  const int rows = copy.whole() ? 0 : 1;
  for (const std::string& samples : all) {
    const std::vector<std::vector<ObjectIdentity>> lists = scales.of(samples);
    const auto first = static_cast<std::size_t>(rows), end = first + static_cast<std::size_t>(order.axes);
    for (std::size_t axis = first; axis < std::min(end, lists.size()); ++axis)
      for (const ObjectIdentity& scale : lists[axis]) {
        const Index here = factor_of_axis(copy, order, axis);
        const auto known = factors.emplace(scale, here).first;
        if (known->second != here) known->second = 0;
      }
  }
  return factors;
}

}  // namespace

std::string listed_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more" : text;
}

std::vector<CoarseScale> averaged_scales(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                         const FileNames& names, CoarseFile& made, std::vector<std::string>& others) {
  std::vector<CoarseScale> scales;
  const DataFile file(copy.source);
  const AxisScales axis_scales(copy.source, source, names);
  for (const auto& [scale, factor] : factors_of_scales(copy, order, axis_scales, made.samples)) {
    const auto known = names.first.find(scale);
    if (factor == 1 || known == names.first.end()) continue;
    const std::string& name = known->second;
    if (std::erase(others, name) == 0) continue;
    const DatasetInfo info = source.info(name);
    const bool numbers = info.type != ElementType::other && !info.unclear && info.shape.size() == 1 &&
                         h5::classes_told(file, name).empty();
    if (factor > 1 && numbers && info.rows() > 0 && info.rows() % factor == 0) {
      scales.push_back({name, means_of(RowReader(copy.source, name, {.packing = copy.packing}), factor)});
      made.notes.push_back("'" + name + "' numbers an averaged axis: it holds the means of " + std::to_string(factor) +
                           " neighbours");
    } else {
      made.notes.push_back("'" + name + "' numbers averaged axes and cannot be averaged as they are: it is left out");
    }
  }
  return scales;
}

AttributesLeftOut untied(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source, const FileNames& names,
                         const std::vector<CoarseScale>& scales, CoarseFile& made,
                         const std::vector<std::string>& others) {
  const AxisScales known(copy.source, source, names);
  std::map<std::string, Index> factors;  // of the first axis of all that the copy has
  for (const std::string& name : others) factors[name] = 1;
  for (const CoarseScale& scale : scales)
    factors[scale.name] = source.info(scale.name).rows() / std::ssize(scale.means);
  for (const std::string& name : made.samples) factors[name] = factor_of_axis(copy, order, 0);
  const FileIdentity own = file_identity(copy.source).value_or(FileIdentity{});
  const std::set<std::string> samples(made.samples.begin(), made.samples.end());
  AttributesLeftOut left_out;
  std::vector<std::string> told;
  for (const auto& [name, first] : factors) {
    if (known.file_of(name) != own) {  // another file's numbers would mean other dimensions here
      left_out[name] = {"_Netcdf4Coordinates", "_Netcdf4Dimid"};
      continue;
    }
    const bool averaged = samples.contains(name);
    const std::vector<std::optional<ObjectIdentity>> dimensions = known.numbered_of(name);
    for (std::size_t axis = 0; axis < dimensions.size() && !left_out.contains(name); ++axis) {
      const Index here = averaged ? factor_of_axis(copy, order, axis) : axis == 0 ? first : 1;
      const auto there = dimensions[axis] ? factors.find(names.first.at(*dimensions[axis])) : factors.end();
      if (there == factors.end() || there->second != here) left_out[name] = {"_Netcdf4Coordinates"};
    }
    if (left_out.contains(name)) told.push_back(name);
  }
  if (!told.empty())
    made.notes.push_back("netCDF's dimensions of " + listed_names(told) +
                         " are not those of the source, which the copy has with another length or not at all");
  return left_out;
}

}  // namespace mrmf
