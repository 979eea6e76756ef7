// The names that a file has for its groups and data sets: an object may have several.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"

namespace mrmf {

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

}  // namespace mrmf
