// What to do about names and files that other programs take for data, and this one does not: addresses, what only a
// shell replaces, folders, and files of other formats. Each text is the end of a message's line, or empty.
#pragma once

#include <string>

namespace mrmf {

/// Advice on a name that no file has, if it is an address ("s3://bucket/a.h5") or holds what a shell replaces
/// ("~/a.h5",
/// "$DATA/a.h5"): "~ is the home folder in a shell alone; write /home/me/a.h5".
std::string advice_on_name(const std::string& name);

/// Advice on a folder: "is a folder; name its files with a pattern, such as folder/*.h5".
std::string advice_on_folder(const std::string& folder);

/// Advice on a file that is not HDF5, by how it begins: "is a netCDF-3 file, not HDF5; `nccopy -k nc4 a.nc a.nc4` makes
/// one of it". Empty for a format that is not known here, and where the file cannot be read.
std::string advice_on_format(const std::string& file);

}  // namespace mrmf
