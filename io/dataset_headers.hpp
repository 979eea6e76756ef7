// What the headers of a data set's files say, read by all ranks together. Private to io/.
#pragma once

#include "io/dataset.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// The shape of a data set, every row a sample. Each file is opened once, by one of the ranks. Collective. Throws as
/// inspect_dataset(): of several files that are wrong, or unlike the first, the first in the list is named, on every
/// rank. Files of which enough is `remembered` are opened without a look at their headers.
DatasetShape inspect_headers(const DatasetSpec& spec, Comm& comm, const RememberedRows& remembered = {});

}  // namespace mrmf
