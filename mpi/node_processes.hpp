// The processes of the ranks of one node, and whether one of them is stopped: by SIGSTOP, as batch systems suspend a
// job, or by a debugger.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mrmf::mpi {

/// What tells a process from every other one, as numbers that ranks send each other.
struct ProcessName {
  std::int64_t node = 0;     ///< the machine's start and the namespace of its process numbers; 0: not known
  std::int64_t process = 0;  ///< its number there
  std::int64_t started = 0;  ///< when, in the kernel's clock ticks: numbers are used again
  static ProcessName own() { return of(::getpid()); }
  static ProcessName of(pid_t process);  ///< one that this process sees; nothing is known of others
};

class NodeProcesses {
 public:
  /// `all` by rank. Those that this process can see count, besides itself.
  NodeProcesses(std::span<const ProcessName> all, int own_rank);

  /// Whether one of the others is stopped. Where it has kept this rank waiting for `too_long`, one rank of the node
  /// says so on stderr, once a minute at most.
  bool any_stopped(bool too_long) const;
  /// The lowest rank of the others that is stopped.
  std::optional<int> stopped() const;
  std::size_t count() const { return others_.size(); }

 private:
  struct Process {
    int rank = 0;
    ProcessName name;
  };
  void tell(int stopped) const;

  int own_rank_;
  std::vector<Process> others_;                // by rank
  mutable std::atomic<std::int64_t> told_{0};  // when, in seconds of the steady clock; 0: never
};

}  // namespace mrmf::mpi
