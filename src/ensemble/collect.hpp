// What an ensemble comes to: one data set that `mrmf train` reads, and one table.
#pragma once

#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/folder.hpp"

namespace mrmf {

/// A row is numbers of its parts, one part after the other, in this file of a folder.
inline constexpr const char* kRowsName = "/rows.bin";

/// Which of so many members validate: about `share` of them, by `seed`, and one at least of two or more.
std::vector<bool> validation_members(const std::vector<Index>& members, double share, std::uint64_t seed);

/// Collective. Writes the rows of all members that are done, in their order, into data.h5, whole or not at all:
///   the members' own parts   as they made them
///   labels      (n, keys)    float32, each key's range or list scaled to [-1, 1]
///   parameters  (n, keys)    float64, the keys' values
///   summaries   (n, 4 x c)   float32: of each of the c channels of the first part mean, deviation, least and most
///   member      (n,)         uint32    split  (n,)  uint8: 1 validates
///   meta.JSON                what it was made of
/// Returns the members whose rows are not what their journals say; then nothing was written.
std::vector<Index> collect(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members,
                           Comm& world);

/// The table, with a line for each member.
std::string members_csv(const EnsembleSpec& spec, const std::vector<Point>& points, const Members& members);

/// The [data] section of a configuration that trains on the data set.
std::string data_section(const EnsembleSpec& spec);

}  // namespace mrmf
