// What ranks and parts have kept of an ensemble's members, taken into its own journal and rows: so that few files are
// left, however many took part.
#pragma once

#include "src/ensemble/spec.hpp"

namespace mrmf {

/// On the root, which owns the ensemble's folder. Takes the journals of ranks, and of parts where nobody works the
/// journals, the rows and the runs of trainings; then removes them. A kill at any time loses nothing: what is in two
/// places counts once. DataError where it cannot be read or written; what was not taken stays where it is.
void gather(const EnsembleSpec& spec);

}  // namespace mrmf
