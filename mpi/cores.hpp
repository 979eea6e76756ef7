// The cores that this process may use. OpenMP can bind threads to places, each a core or a few (OMP_PROC_BIND,
// OMP_PLACES, GOMP_CPU_AFFINITY). It binds a process's first thread before main() begins, and whatever that thread
// starts, threads and programs, would stay on its place, too.
#pragma once

#include <array>
#include <vector>

namespace mrmf {

/// Their numbers, in order: those of all places that OpenMP gives to threads, or where it binds none, those that the
/// system leaves to the calling thread. Empty where the system does not say.
std::vector<int> process_cores();

/// A set of cores as the system takes it.
class CoreSet {
 public:
  explicit CoreSet(const std::vector<int>& cores);
  /// Lets the calling thread run on all of them, and nowhere else; false if the system refuses. Safe after a fork.
  bool hold_this_thread() const;

 private:
  std::vector<unsigned long> bits_;
};

/// OpenMP's variables that bind threads to places.
inline constexpr std::array<const char*, 3> kBindingVariables{"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"};

/// Before the program starts itself again: where a launcher has started several tasks on this node and leaves all of
/// its cores to each, removes these variables. They would bind the threads of all tasks to the same cores.
void leave_shared_node();

/// Lets the calling thread run on all of the process's cores, where OpenMP binds threads: a thread that does not
/// compute with others would take time from one that does, beside cores that nobody uses.
void leave_place();

}  // namespace mrmf
