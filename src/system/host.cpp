#include "src/system/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

namespace mrmf {
namespace {

namespace fs = std::filesystem;

// The number that a file begins with; none where it holds none ("max") or is not there.
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

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Two splits, so that 60 bits of the hash tell texts apart.
Comm ranks_of_same(const std::string& text, Comm& world) {
  const std::size_t hash = std::hash<std::string>{}(text);
  constexpr std::size_t bits = 30;
  constexpr std::size_t mask = (std::size_t{1} << bits) - 1;
  Comm some = world.split(static_cast<int>(hash & mask));
  return some.split(static_cast<int>(hash >> bits & mask));
}

// A line of /proc/self/cgroup is "0::/job/step" (version 2) or "4:memory:/job/step" (version 1); every folder from
// there up to the root may set a limit.
double node_memory() {
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

}  // namespace mrmf
