// Waiting for other ranks: MPI's requests with RAII, errors with MPI's text, limits on how long a wait takes, and
// whether a rank of the same node is stopped (as suspended jobs are). Private to mpi/.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"

namespace mrmf::mpi {

// The processes of the ranks of one node, and whether one of them is stopped: by SIGSTOP, as batch systems suspend a
// job, or by a debugger.

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

// MPI's requests with RAII, errors with MPI's text, and waits with an end.

/// Throws FaultError with MPI's text unless `code` is success. The defaults are the caller's place, built as
/// std::source_location is, which clang-tidy 14 cannot read.
void check(int code, const char* function, const char* caller = __builtin_FUNCTION(), int line = __builtin_LINE());

/// This rank's error for a collective call that has not ended within `seconds`.
FaultError overdue(const char* function, double seconds);

/// Polls `done` until it says so. FaultError after the limit.
void wait_until(const std::function<bool()>& done, const char* function, const WaitLimit& limit);

/// Whether a call of this process was given up while it was under way, after an error. MPI may then still write to the
/// memory of that call, which the unwinding has freed, whenever it is called again.
bool abandoned_calls();
/// Notes that a call was given up.
void abandon_calls();

/// A collective call under way on a communicator that must outlive it.
class Request {
 public:
  explicit Request(const char* function) : function_(function) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  /// Abandons an unfinished call: MPI cannot withdraw a collective, and this happens only after an error.
  ~Request() {
    if (request_ != MPI_REQUEST_NULL) abandon_calls();
  }

  MPI_Request* begun() { return &request_; }
  bool test();
  void finish(const WaitLimit& limit) {
    wait_until([this] { return test(); }, function_, limit);
  }

 private:
  const char* function_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A time limit for blocking MPI calls that have no non-blocking form. While one lives, the calling thread is in a
/// collective call, which no exception can leave. If it lives for longer than the limit, its own thread throws
/// FaultError. Nothing catches that, so it ends the program on all ranks, and main's handler prints the message.
class Deadline {
 public:
  Deadline(WaitLimit limit, const char* function);

 private:
  std::jthread watcher_;
};

}  // namespace mrmf::mpi
