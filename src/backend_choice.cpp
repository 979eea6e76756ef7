// Which backend and how many threads: from the configuration and the machine.
#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "src/commands.hpp"

namespace mrmf {
namespace {

// Ranks that share this rank's node.
int ranks_here(Comm& world) {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  const auto colour = static_cast<int>(std::hash<std::string>{}(name)&0x3fffffff);
  return world.split(colour).size();
}

// A rank bound to cores uses those; unbound ranks share the node's.
int default_threads(Comm& world) {
  const int allowed = omp_get_num_procs();
  const int here = ranks_here(world);
  const bool bound = allowed < static_cast<int>(std::thread::hardware_concurrency());
  return bound ? allowed : std::max(1, allowed / here);
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
