// What the names of a data set are in a file (arrays, attributes, groups that are samples, texts), and where rows
// truly lie: in which array of which file, whatever names and links lead there, and behind virtual data sets. Private
// to io/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/hdf5/library_and_types.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// What the names of a data set are in a file: arrays, attributes, groups that are samples, texts. Private to io/.

/// What `name` is, seen from a group ("": from the file's root).
RowName name_in(const DataFile& file, const std::string& group, const std::string& name);

/// Whose an attribute is: "of the file", "of 'density'".
std::string owner_text(const RowName& name);
/// "<path>: attribute '<name>' of 'density'".
std::string attribute_text(const std::string& path, const RowName& name);
/// The object of an attribute. DataError when there is none of its name. Callers hold an h5::Lock.
h5::Object owner_of(const DataFile& file, const RowName& name);

// The groups of files of which each is one sample.

/// The paths of the groups that fit the specification's pattern, in HDF5's order of names on every level: by bytes, so
/// that "sim_10" comes before "sim_2". "*" and "?" stand for parts of one name, and a slash parts names, as in
/// "train/sim_*". Where the pattern's last name is "*", groups that hold none of the specification's arrays are left
/// out, as those of metadata. DataError when there is no group.
std::vector<std::string> groups_of(const DataFile& file, const DatasetSpec& spec);
/// The groups of all files, of which every rank has those of its piece() of the files. Collective.
std::vector<GroupsAsRows> share_groups(const std::vector<GroupsAsRows>& groups, Comm& comm);

// Rows that are texts.

/// Texts of that name; null where it has none. `whole`: all of them are one row.
std::unique_ptr<const RowSource> open_words(const std::shared_ptr<const DataFile>& file, const RowName& name,
                                            bool whole);

}  // namespace mrmf

namespace mrmf::h5 {

// Where the rows of a data set truly lie: in which array of which file, whatever names and links lead there, and behind
// virtual data sets. Private to io/.

/// The origins of all rows of a data set, ascending. Rows of a virtual data set lie where its sources lie, row by row,
/// wherever its mappings take whole rows or the same part of each; rows that it puts together in another way (points,
/// rows made of several, other axes first) lie in the virtual data set itself. Rows without a source have none.
/// Requires sound sources (io/hdf5/links.hpp).
/// With `whole`, all of the data set is one row, the same as another that lies at the same locations.
std::vector<RowOrigin> row_origins(const Dataset& dataset, bool whole = false);

/// Origins of the rows of an array that are known to lie nowhere else.
std::vector<RowOrigin> row_origins(const ObjectIdentity& array, Index rows, bool whole);

}  // namespace mrmf::h5
