// Which data sets of a file are averaged in its coarse copy.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "io/coarsen/coarse_parts.hpp"
#include "io/files/edit_distance.hpp"
#include "io/files/limits.hpp"
#include "io/hdf5/conventions.hpp"
#include "io/hdf5/file.hpp"
#include "io/hdf5/library.hpp"
#include "io/hdf5/names.hpp"
#include "io/values/axis_order.hpp"

namespace mrmf {
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

}  // namespace mrmf
