// Whether rows of data sets are the same, under whatever names.
#pragma once

#include "io/dataset.hpp"

namespace mrmf {

/// DataError, with both names and files, when the same rows occur twice in one of the data sets, or in both: a file
/// named twice, by a link or another path, an array by two names, a virtual data set beside its sources. Rows are the
/// same where all numbers of their samples lie in the same places of the same files, not where they are merely equal.
/// Data sets that are the parts of one split are looked at as one. Opens only files of which more than the name must be
/// known: those named twice, those whose rows lie in other files, and these. Collective; the root looks.
void require_distinct_rows(const FoundDataset& train, const FoundDataset& validation, Comm& comm);

/// How many samples of `here` are samples of `there`, too, by the same rule. Data sets of the same names in the same
/// files are compared row by row, without opening any. Collective; the root looks.
Index count_common_samples(const FoundDataset& here, const FoundDataset& there, Comm& comm);

}  // namespace mrmf
