// What a result says of where it came from.
#include <sched.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "generated/version.hpp"
#include "io/hdf5_file.hpp"
#include "mpi/comm.hpp"
#include "src/run/records.hpp"

namespace mrmf {
namespace {

// The value of the first line "<name> : <value>" of a /proc file, or "".
std::string proc_value(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) machine.host = name.data();
  machine.processor = proc_value("/proc/cpuinfo", "model name");
  machine.cores = usable_cores();
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
  machine.memory_gib = pages * page / (1024.0 * 1024.0 * 1024.0);
  return machine;
}

Versions these_versions(const std::string& backend) {
  return {kVersion, kGitHash, std::string("g++ ") + __VERSION__, backend, hdf5_version(), MpiSession::version()};
}

}  // namespace mrmf
