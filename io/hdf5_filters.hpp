// Filters that pack the chunks of data sets. Private to io/.
#pragma once

#include <optional>
#include <string>

#include "io/hdf5_library.hpp"

namespace mrmf::h5 {

/// Which filter of a data set the library does not have, and what to do: "is packed by filter 32015 (zstd), ...".
/// Nothing where it has all of them. With `used`, only if the first of the chunks went through it: what a filter did
/// not make smaller may be stored as it is.
std::optional<std::string> missing_filter(const Dataset& dataset, bool used);

/// DataError, as missing_filter() has it of a filter that was used. `what` is "<path>: data set '<name>'".
void require_filters(const Dataset& dataset, const std::string& what);

}  // namespace mrmf::h5
