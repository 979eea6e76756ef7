// What a coarse copy of a file holds: which data sets are averaged, and what becomes of dimensions and coordinates.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"

namespace mrmf {

// Which data sets of a file are averaged in its coarse copy.

namespace {

/// Integers of other sizes than a detector's 16 bits may well be classes, whose means mean nothing.
bool may_be_classes(ElementType type) {
  return type != ElementType::float16 && type != ElementType::int16 && type != ElementType::uint16 &&
         type != ElementType::float32 && type != ElementType::float64;
}

bool has_axes(const CoarseCopy& copy, const AxisOrder& order, const DatasetInfo& info) {
  return std::ssize(info.shape) == order.axes + (copy.whole() ? 0 : 1);
}

/// Numbers of the right shape, of a type that has means.
bool are_numbers(const CoarseCopy& copy, const AxisOrder& order, const DatasetInfo& info) {
  return has_axes(copy, order, info) && !info.scale && !may_be_classes(info.whole ? info.stored : info.type);
}

/// The data sets asked for have as many axes.
void require_axes(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source) {
  if (copy.rows == RowsBy::groups) return;  // they are names within the groups
  const Index counted_axes = copy.whole() ? 0 : 1;
  for (const std::string& name : copy.samples) {
    const DatasetInfo info = source.info(name);  // throws when there is no such data set
    const auto axes = std::ssize(info.shape);
    const std::string what = copy.source + ": data set '" + name + "' ";
    if (info.type == ElementType::other)
      throw DataError(what + "holds " + info.type_name + " elements, which have no mean; " + readable_types());
    if (axes <= counted_axes)
      throw DataError(what + "has shape " + shape_text(info.shape) + ", and no axis to average");
    if (axes == order.axes + counted_axes) continue;
    if (copy.axis_names.empty())
      throw ConfigError(
          copy.source + ": the samples of '" + name + "' have " + std::to_string(axes - 1 - counted_axes) +
          (axes - 1 - counted_axes == 1 ? " axis" : " axes") +
          " of positions, the last axis being channels; give --factor as many numbers, or name all axes in --axes");
    throw ConfigError(copy.source + ": data set '" + name + "' has " + std::to_string(axes) + " axes, and --axes \"" +
                      copy.axis_names + "\" names " + std::to_string(order.axes + counted_axes) +
                      "; name every axis of the data set");
  }
}

/// Names of data sets within the groups, one level and more above them.
std::vector<std::string> names_in_groups(const FileNames& names) {
  std::set<std::string> within;
  for (const std::string& name : names.datasets)
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1))
      within.insert(name.substr(slash + 1));
  return {within.begin(), within.end()};
}

/// With RowsBy::groups, names that no group has would be left out without a word.
void require_in_groups(const CoarseCopy& copy, const FileNames& names) {
  if (copy.rows != RowsBy::groups) return;
  for (const std::string& name : copy.samples) {
    if (std::ranges::any_of(names.datasets, [&](const std::string& one) { return one.ends_with("/" + name); }))
      continue;
    const std::vector<std::string> there = names_in_groups(names);
    const std::string meant = nearest(name, there);
    throw ConfigError(copy.source + ": no group has a data set '" + name + "', which --samples names; " +
                      (there.empty() ? "no group has any" : "groups have " + list_near(name, there)) +
                      (meant.empty() ? "" : "; do you mean '" + meant + "'?"));
  }
}

std::string none_fits(const CoarseCopy& copy, const AxisOrder& order) {
  if (!copy.axis_names.empty())
    return "no data set has " + std::to_string(order.axes + 1) + " axes, as --axes \"" + copy.axis_names +
           "\" names; name every axis of the data sets to average";
  return "no data set has samples of " + std::to_string(copy.axes) + (copy.axes == 1 ? " axis" : " axes") +
         " and channels; give --factor a number per axis, and --axes if there is no axis of channels";
}

/// Whether --samples names a data set.
std::function<bool(const std::string&)> asked_for(const CoarseCopy& copy, const FileNames& names) {
  std::set<std::string> asked;  // by their first names
  for (const std::string& name : copy.samples)
    asked.insert(copy.rows == RowsBy::groups ? "/" + name : first_name(names, copy.source, name));
  return [asked = std::move(asked), groups = copy.rows == RowsBy::groups](const std::string& name) {
    if (!groups) return asked.contains(name);
    return std::ranges::any_of(asked, [&](const std::string& one) { return name.ends_with(one); });
  };
}

}  // namespace

FileNames names_to_copy(const CoarseCopy& copy) {
  FileNames names = names_of(copy.source);
  const std::size_t links = names.broken.size();
  leave_out_unreadable(names, copy.source, asked_for(copy, names));
  // It may be what is to be averaged, unless the user says what is.
  if (copy.samples.empty() && names.broken.size() > links)
    throw DataError(copy.source + ": data set " + names.broken[links].text() +
                    "; or name the data sets to average with --samples: the copy is then without this one");
  return names;
}

std::vector<std::string> samples_to_average(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                                            const FileNames& names, std::vector<std::string>& others) {
  const DataFile file(copy.source);
  std::vector<std::string> chosen;
  std::string unreadable;
  require_axes(copy, order, source);
  require_in_groups(copy, names);
  const auto is_asked = asked_for(copy, names);
  for (const std::string& name : names.datasets) {
    const DatasetInfo info = source.info(name);
    const bool shaped = has_axes(copy, order, info);
    const bool fits = are_numbers(copy, order, info) && h5::classes_told(file, name).empty();
    if (shaped && !fits && !info.scale) unreadable = name;
    const bool wanted = copy.samples.empty() ? fits : shaped && is_asked(name);
    (wanted ? chosen : others).push_back(name);
  }
  if (chosen.empty() && !unreadable.empty() && source.info(unreadable).type != ElementType::other)
    throw ConfigError(copy.source + ": the samples of '" + unreadable + "' are " + source.info(unreadable).type_name +
                      " elements, which may be classes; if they are to be averaged, name them with --samples");
  if (chosen.empty() && !unreadable.empty())
    throw ConfigError(copy.source + ": the samples of '" + unreadable + "' are " + source.info(unreadable).type_name +
                      " elements; " + readable_types());
  if (chosen.empty()) throw ConfigError(copy.source + ": " + none_fits(copy, order));
  return chosen;
}

void ClassesFound::tell(std::vector<std::string>& notes) const {
  const auto holds = [](const std::vector<std::string>& names, const std::string& told) {
    return listed_names(names) + (names.size() == 1 ? " holds" : " hold") + " classes, as the " + told + " says";
  };
  for (const auto& [told, names] : copied_)
    notes.push_back(holds(names, told) + ": copied, not averaged, unless --samples names " +
                    (names.size() == 1 ? "it" : "them"));
  for (const auto& [told, names] : averaged_)
    notes.push_back(holds(names, told) + ": averaged, because --samples names " + (names.size() == 1 ? "it" : "them") +
                    "; the copy does not say so of means");
}

ClassesFound find_classes(const CoarseCopy& copy, const AxisOrder& order, const Hdf5File& source,
                          const std::vector<std::string>& averaged, const std::vector<std::string>& others) {
  ClassesFound found;
  const DataFile file(copy.source);
  const auto look = [&](const std::vector<std::string>& names, bool chosen) {
    for (const std::string& name : names)
      if (const std::string told = h5::classes_told(file, name); !told.empty())
        if (chosen || are_numbers(copy, order, source.info(name))) found.add(name, told, chosen);
  };
  look(averaged, true);
  if (copy.samples.empty()) look(others, false);
  return found;
}

// What becomes of dimensions and coordinates in coarse copies.

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
  std::map<std::string, Index> factors;  // the factor of the first axis of every array that the copy has
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
