// MPI's requests with RAII, errors with MPI's text, and waits that end. Private to mpi/.
#pragma once

#include <mpi.h>

#include <thread>

#include "kernels/check.hpp"

namespace mrmf::mpi {

/// Throws FaultError with MPI's text unless `code` is success. The defaults are the caller's place
/// (std::source_location, which clang-tidy 14 cannot read, is made of these).
void check(int code, const char* function, const char* caller = __builtin_FUNCTION(), int line = __builtin_LINE());

/// What this rank says of a call of the ranks together that has not ended within `limit` seconds.
FaultError overdue(const char* function, double limit);

/// A collective call under way on a communicator that outlives it.
class Request {
 public:
  explicit Request(const char* function) : function_(function) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  Request(Request&& other) noexcept;
  Request& operator=(Request&&) = delete;
  /// Leaves behind what is not done: MPI cannot withdraw a collective call, and this is an error's way out.
  ~Request() = default;

  MPI_Request* begun() { return &request_; }
  bool test();
  /// Polls until it is done. FaultError after `limit` seconds (0: never).
  void finish(double limit);

 private:
  const char* function_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// An end for the blocking MPI calls that have no non-blocking form. While one lives, the calling thread is in a call
/// that the ranks make together, which no exception can leave. If it lives for longer than `limit` seconds (0: it may),
/// a thread of its own throws FaultError, and nothing catches that: it ends the program, by main's handler with the
/// message and for all ranks.
class Deadline {
 public:
  Deadline(double limit, const char* function);

 private:
  std::jthread watcher_;
};

}  // namespace mrmf::mpi
