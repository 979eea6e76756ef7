// What is done to the numbers of a data set's files, which may each have attributes of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// In how many files one name's numbers are read so, by Packing::text(); of files where nothing is done, nothing.
using PackingCount = std::map<std::string, Index>;

/// Of each of these names, over all files. Opens them, by all ranks together. Collective; DataError as RowSources'.
std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm);

/// For people: "packed int16: value * 0.01; -1 is missing" where that holds for all `files`, else "3 of 5 files: packed
/// ...", the most frequent first. Of many, some are told.
std::vector<std::string> packing_texts(const PackingCount& count, Index files);

}  // namespace mrmf
