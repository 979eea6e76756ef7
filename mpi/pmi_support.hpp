// Launchers that the program's MPI does not understand.
#pragma once

namespace mrmf {

/// srun tells its tasks of each other by PMI-1 or PMI-2 where it is asked to (--mpi=pmi2, or MpiDefault of the site).
/// Open MPI that was built without them, as most packages are, then ends a program with a page of text while it starts.
/// This takes their variables out of the environment, so that the process is one whom MPI was not told of:
/// launched_tasks() sees the others, and a single task just runs. Does nothing where MPI may understand them, or
/// another launcher has set them. Call it before MPI is initialised.
void forget_unknown_pmi();

}  // namespace mrmf
