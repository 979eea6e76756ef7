// What the names of a data set are in a file. Private to io/.
#pragma once

#include <string>

#include "io/data_file.hpp"
#include "io/row_source.hpp"

namespace mrmf {

/// What `name` is, seen from a group ("": from the file's root).
RowName name_in(const DataFile& file, const std::string& group, const std::string& name);

/// "of the file", "of 'density'": of an attribute.
std::string owner_text(const RowName& name);
/// "<path>: attribute '<name>' of 'density'".
std::string attribute_text(const std::string& path, const RowName& name);
/// The object of an attribute. DataError when there is none of its name. Callers hold an h5::Lock.
h5::Object owner_of(const DataFile& file, const RowName& name);

}  // namespace mrmf
