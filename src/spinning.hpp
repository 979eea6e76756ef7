// How long OpenMP's threads look for work, with their core, before they sleep.
#pragma once

namespace mrmf {

/// Threads that wait spin for some microseconds, as long as waking them takes, where libgomp's default is some
/// milliseconds: time that others who compute on the machine would take from the thread that is waited for. libgomp
/// reads GOMP_SPINCOUNT before main() begins, so this sets it and starts the program again, in the same process. To be
/// called before MPI is initialised. Does nothing where the environment says how threads wait (GOMP_SPINCOUNT,
/// OMP_WAIT_POLICY).
void spin_briefly(char** argv);

}  // namespace mrmf
