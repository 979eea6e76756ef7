// What the labels of many files are called, which must agree. Private to io/.
#pragma once

#include <utility>
#include <vector>

#include "io/number_names.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// The names of labels in this rank's files.
class NamesSeen {
 public:
  /// Those of one array of a file, by its index in the list of all. Files come in ascending order.
  void add(Index file, const LabelNames& names);
  /// What all files of all ranks say together. DataError on every rank where two contradict each other: it names the
  /// first in the list that contradicts one before it. Collective.
  LabelNames agreed(Comm& comm) const;

 private:
  std::vector<std::pair<Index, LabelNames>> different_;  // with the first file that has them
};

}  // namespace mrmf
