// MPI's requests with RAII, errors with MPI's text, and waits with an end. Private to mpi/.
#pragma once

#include <mpi.h>

#include <functional>
#include <thread>

#include "kernels/errors.hpp"
#include "kernels/wait_timer.hpp"

namespace mrmf::mpi {

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
