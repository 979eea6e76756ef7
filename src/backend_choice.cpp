// Which backend and how many threads: from the configuration and the machine.
#include <omp.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "src/commands.hpp"

namespace mrmf {
namespace {

// The node and the cores that the scheduler, a cpuset or a binding leaves to this rank there.
std::string place() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof(cores), &cores);  // stays empty on a node of more than 1024: then all ranks share
  return std::string(name) + '\0' + std::string(reinterpret_cast<const char*>(&cores), sizeof(cores));
}

// Ranks that share this rank's cores: all of the node when unbound, none when each is bound to its own. Two splits,
// so that 60 bits of the hash tell places apart.
int ranks_on_these_cores(Comm& world) {
  const std::size_t hash = std::hash<std::string>{}(place());
  constexpr std::size_t bits = 30;
  constexpr std::size_t mask = (std::size_t{1} << bits) - 1;
  Comm some = world.split(static_cast<int>(hash & mask));
  return some.split(static_cast<int>(hash >> bits & mask)).size();
}

// What OMP_NUM_THREADS asks for, else this rank's share of its cores.
int default_threads(Comm& world) {
  const int sharing = ranks_on_these_cores(world);  // collective, so before any rank decides by its own environment
  const char* wanted = std::getenv("OMP_NUM_THREADS");
  if (wanted != nullptr && std::atoi(wanted) > 0) return std::atoi(wanted);  // of a list "4,2" the outermost level's
  return std::max(1, omp_get_num_procs() / sharing);
}

}  // namespace

int choose_threads(int wanted, Comm& world) { return wanted > 0 ? wanted : default_threads(world); }

std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world) {
  if (run.device == "cuda")
    throw ConfigError("run.device = \"cuda\": this build of mrmf has no CUDA backend; use \"cpu\" or \"auto\"");
  const int threads = choose_threads(run.threads, world);
  omp_set_num_threads(threads);
  return run.backend == "reference" ? make_reference_backend() : make_onednn_backend(threads);
}

}  // namespace mrmf
