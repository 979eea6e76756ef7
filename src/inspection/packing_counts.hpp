// What is done to the numbers of a data set's files, or groups, which may each have attributes of their own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// How one name's numbers are read.
struct PackingCount {
  std::map<std::string, Index> texts;  ///< in how many files or groups so, by Packing::text(); nothing is done: nothing
  Index all = 0;                       ///< files or, where these are samples, groups
  Index scaled = 0, whole = 0;         ///< those with a scale or offset, and those whose integers are taken as stored
  Index declared = 0;                  ///< those whose attributes tell what is missing
  std::string what;                    ///< "files" or "groups"
  std::map<std::string, Index> not_applied{};  ///< the same of Packing::not_applied

  /// Whether integers are scaled in some of them, and taken as they are stored in others.
  bool scaled_in_part() const { return scaled > 0 && whole > 0; }
};

/// The counts of each of these names, over all files. Opens the files, by all ranks together. Collective; DataError as
/// RowSources'.
std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm);

/// For people: "packed int16: value * 0.01; -1 is missing" where that holds for all, else "3 of 5 files: packed ...",
/// the most frequent first. Of many, some are told.
std::vector<std::string> packing_texts(const PackingCount& count);

/// What attributes say that nothing applies: "'x': ScaleFactor = 0.01 is not applied; ...", "'x' in 3 of 5 files:
/// ...".
std::vector<std::string> not_applied_texts(const std::string& name, const PackingCount& count);

/// Adds a text that is not among these yet: much holds for several names, files and parts of a data set.
void add_once(std::vector<std::string>& texts, const std::string& text);

}  // namespace mrmf
