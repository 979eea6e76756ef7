// Whether training and validation see each row once.
#pragma once

#include "io/dataset.hpp"

namespace mrmf {

/// A data set as inspect_dataset() has found it.
struct FoundDataset {
  const DatasetSpec& spec;
  const DatasetShape& shape;
};

/// DataError, with both names and files, when the same rows occur twice in one of the data sets, or in both: a file
/// named twice, by a link or another path, an array by two names, a virtual data set beside its sources. Rows are the
/// same where all numbers of their samples lie in the same places of the same files, not where they are merely equal.
/// Data sets that are the parts of one split are looked at as one. Opens only files of which more than the name must be
/// known: those named twice, those whose rows lie in other files, and these. Collective; the root looks.
void require_distinct_rows(const FoundDataset& train, const FoundDataset& validation, Comm& comm);

}  // namespace mrmf
