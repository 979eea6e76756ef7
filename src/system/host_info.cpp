#include "src/system/host_info.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <vector>

#include "generated/version.hpp"
#include "io/hdf5/file.hpp"
#include "mpi/comm.hpp"
#include "mpi/cores.hpp"
#include "mpi/environment.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

// Lowers `least` to the number at the beginning of a file, unless there is none ("max") or no file.
void lower_to(double& least, const fs::path& file) {
  double bytes = 0;
  if (std::ifstream(file) >> bytes && bytes > 0) least = std::min(least, bytes);
}

double total_memory() {
  std::ifstream file("/proc/meminfo");
  double kib = 0;
  for (std::string word; file >> word;)
    if (word == "MemTotal:" && file >> kib) break;
  return 1024 * kib;
}

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

/// 1 for each of the host's cores that this process may use; all that there are, where the system does not say.
std::vector<std::int64_t> usable_cores() {
  const std::vector<int> numbers = process_cores();
  const auto there = std::max<std::int64_t>(sysconf(_SC_NPROCESSORS_CONF), 1);
  std::vector<std::int64_t> cores(static_cast<std::size_t>(numbers.empty() ? there : numbers.back() + 1));
  if (numbers.empty()) std::ranges::fill(cores, 1);
  for (const int number : numbers) cores[static_cast<std::size_t>(number)] = 1;
  return cores;
}

int count_used(const std::vector<std::int64_t>& users) {
  return static_cast<int>(std::ranges::count_if(users, [](std::int64_t count) { return count > 0; }));
}

}  // namespace

int cores_together(Comm& ranks) {
  std::vector<std::int64_t> users = usable_cores();
  users.resize(static_cast<std::size_t>(ranks.max(static_cast<double>(users.size()))));
  ranks.sum(std::span(users));
  return count_used(users);
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Splits twice, so that 60 bits of the hash distinguish texts.
Comm ranks_of_same(const std::string& text, Comm& world) {
  const std::size_t hash = std::hash<std::string>{}(text);
  constexpr std::size_t bits = 30;
  constexpr std::size_t mask = (std::size_t{1} << bits) - 1;
  Comm some = world.split(static_cast<int>(hash & mask));
  return some.split(static_cast<int>(hash >> bits & mask));
}

// A line of /proc/self/cgroup is "0::/job/step" (version 2) or "4:memory:/job/step" (version 1). Every folder from
// there up to the root may set a limit.
double host_memory() {
  double least = total_memory();
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const bool second = line.starts_with("0::");
    if (!second && line.find(":memory:") == std::string::npos) continue;
    const fs::path top = second ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* name = second ? "memory.max" : "memory.limit_in_bytes";
    fs::path group = line.substr(line.find('/'));
    for (; group.has_relative_path(); group = group.parent_path()) lower_to(least, top / group.relative_path() / name);
    lower_to(least, top / name);
  }
  return least;
}

namespace {

// ARM's processors have numbers: of who designed them, and of the core.
std::string processor_name() {
  const std::string name = proc_value("/proc/cpuinfo", "model name");
  const std::string part = proc_value("/proc/cpuinfo", "CPU part");
  if (!name.empty() || part.empty()) return name;
  return fmt::format("ARM implementer {} part {} variant {} revision {}",
                     proc_value("/proc/cpuinfo", "CPU implementer"), part, proc_value("/proc/cpuinfo", "CPU variant"),
                     proc_value("/proc/cpuinfo", "CPU revision"));
}

}  // namespace

Machine this_machine() {
  Machine machine;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) machine.host = name.data();
  machine.processor = processor_name();
  machine.cores = count_used(usable_cores());
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
  machine.memory_gib = pages * page / (1024.0 * 1024.0 * 1024.0);
  return machine;
}

Versions these_versions(const std::string& backend) {
  return {kVersion, kGitHash, std::string("g++ ") + __VERSION__, backend, hdf5_version(), MpiEnvironment::version()};
}

}  // namespace mrmf
