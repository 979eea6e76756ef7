// Names of files: patterns with *, ? and [...] and ranges of numbers, and advice on names and files that are not what
// this program reads.
#pragma once

#include <string>
#include <vector>

namespace mrmf {

/// Whether a name is a pattern, and no file of just this name is there.
bool is_pattern(const std::string& name);

/// The names with each pattern replaced by the files that it matches, in alphabetical order (byte by byte). A file that
/// is there already is not named again by a pattern. A pattern that matches nothing stays as it is. A range of numbers,
/// "sim{000..099}.h5", is replaced by all of its names, whether they are there or not, unless a file of just this name
/// is.
std::vector<std::string> expand_patterns(const std::vector<std::string>& names);

/// A shorter list of which expand_patterns() makes the same: many names that only count up are one range.
std::vector<std::string> fold_numbers(const std::vector<std::string>& names);

/// "no file matches x*.h5; correct the pattern, or the folder to start from", or what else is to be done about it.
std::string no_match_text(const std::string& pattern);

// What to do about names and files that other programs take for data, and this one does not: addresses, what only a
// shell replaces, folders, and files of other formats. Each text is the end of a message's line, or empty.

/// Advice on a name that no file has, if it is an address ("s3://bucket/a.h5") or holds what a shell replaces
/// ("~/a.h5",
/// "$DATA/a.h5"): "~ is the home folder in a shell alone; write /home/me/a.h5".
std::string advice_on_name(const std::string& name);
/// Advice on a name or pattern that no file has, if its folder is one into which this user may not look.
std::string advice_on_access(const std::string& name);
/// The same where something is to be written.
std::string advice_on_output(const std::string& name);

/// Advice on a folder: "is a folder; name its files with a pattern, such as folder/*.h5".
std::string advice_on_folder(const std::string& folder);

/// Advice on a file that is not HDF5, by how it begins: "is a netCDF-3 file, not HDF5; `nccopy -k nc4 a.nc a.nc4` makes
/// one of it". Empty for a format that is not known here, and where the file cannot be read.
std::string advice_on_format(const std::string& file);

}  // namespace mrmf
