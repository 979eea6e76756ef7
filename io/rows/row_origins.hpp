// Where the rows of a data set truly lie: in which array of which file, whatever names and links lead there, and behind
// virtual data sets. Private to io/.
#pragma once

#include <string>
#include <vector>

#include "io/hdf5/library.hpp"
#include "io/rows/duplicate_rows.hpp"

namespace mrmf::h5 {

/// The origins of all rows of a data set, ascending. Rows of a virtual data set lie where its sources lie, row by row,
/// wherever its mappings take whole rows or the same part of each; rows that it puts together in another way (points,
/// rows made of several, other axes first) lie in the virtual data set itself. Rows without a source have none.
/// Requires sound sources (io/hdf5/links.hpp).
/// With `whole`, all of the data set is one row, the same as another that lies at the same locations.
std::vector<RowOrigin> row_origins(const Dataset& dataset, bool whole = false);

/// Origins of the rows of an array that are known to lie nowhere else.
std::vector<RowOrigin> row_origins(const ObjectIdentity& array, Index rows, bool whole);

}  // namespace mrmf::h5
