#include "mpi/cores.hpp"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>

namespace mrmf {
namespace {

constexpr std::size_t of_word = 8 * sizeof(unsigned long);

cpu_set_t* as_set(std::vector<unsigned long>& bits) { return reinterpret_cast<cpu_set_t*>(bits.data()); }

std::vector<int> cores_of_places() {
  std::vector<int> cores;
  const int places = omp_get_proc_bind() == omp_proc_bind_master ? 1 : omp_get_num_places();
  for (int place = 0; place < places; ++place) {
    std::vector<int> of_place(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    cores.insert(cores.end(), of_place.begin(), of_place.end());
  }
  std::ranges::sort(cores);
  cores.erase(std::ranges::unique(cores).begin(), cores.end());
  return cores;
}

std::vector<int> cores_of_this_thread() {
  constexpr std::size_t most = std::size_t{1} << 18;
  for (std::size_t count = CPU_SETSIZE; count <= most; count *= 2) {  // the system refuses what is too small for it
    std::vector<unsigned long> bits(count / of_word);
    if (::sched_getaffinity(0, bits.size() * sizeof bits[0], as_set(bits)) != 0) continue;
    std::vector<int> cores;
    for (std::size_t core = 0; core < count; ++core)
      if ((bits[core / of_word] >> core % of_word & 1UL) != 0) cores.push_back(static_cast<int>(core));
    return cores;
  }
  return {};
}

}  // namespace

std::vector<int> process_cores() { return omp_get_num_places() > 0 ? cores_of_places() : cores_of_this_thread(); }

CoreSet::CoreSet(const std::vector<int>& cores)
    : bits_(cores.empty() ? 0 : static_cast<std::size_t>(std::ranges::max(cores)) / of_word + 1) {
  for (const int core : cores) bits_[static_cast<std::size_t>(core) / of_word] |= 1UL << core % of_word;
}

bool CoreSet::hold_this_thread() const {
  return !bits_.empty() &&
         ::sched_setaffinity(0, bits_.size() * sizeof bits_[0], reinterpret_cast<const cpu_set_t*>(bits_.data())) == 0;
}

void leave_shared_node() {
  constexpr std::array variables{"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE",
                                 "SLURM_STEP_TASKS_PER_NODE"};  // the last as "4(x2),3"
  const auto several = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && std::atoi(value) > 1;
  };
  if (omp_get_num_places() == 0 || std::ranges::none_of(variables, several)) return;
  if (std::ssize(process_cores()) < ::sysconf(_SC_NPROCESSORS_ONLN)) return;  // the launcher has bound each task
  for (const char* variable : kBindingVariables) ::unsetenv(variable);
}

void leave_place() {
  if (omp_get_num_places() > 0) CoreSet(process_cores()).hold_this_thread();
}

}  // namespace mrmf
