// An error of one rank becomes an error of all.
#include <exception>
#include <limits>
#include <new>

#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

struct Failure {
  std::int64_t exit_code = 0;  // 0: none
  std::string what;
};

Failure attempt(const std::function<void()>& action) {
  try {
    action();
    return {};
  } catch (const Error& error) {
    return {error.exit_code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {FaultError::kExitCode, "out of memory; use more ranks, more nodes or a coarser resolution"};
  } catch (const std::exception& error) {
    return {FaultError::kExitCode, error.what()};
  }
}

[[noreturn]] void raise(const Failure& failure) {
  switch (failure.exit_code) {
    case ConfigError::kExitCode: throw ConfigError(failure.what);
    case DataError::kExitCode: throw DataError(failure.what);
    default: throw FaultError(failure.what);
  }
}

}  // namespace

void collective_try(Comm& comm, const std::function<void()>& action) {
  Failure failure = attempt(action);
  const bool failed = failure.exit_code != 0;
  const auto failures = static_cast<int>(comm.sum(failed ? 1.0 : 0.0));
  if (failures == 0) return;
  const auto first = static_cast<int>(comm.min(failed ? comm.rank() : comm.size()));
  comm.broadcast(std::span(&failure.exit_code, 1), first);
  comm.broadcast(failure.what, first);
  // What the root alone looked at is everybody's matter.
  if (failures < comm.size() && first > 0) failure.what = "rank " + std::to_string(first) + ": " + failure.what;
  raise(failure);
}

void collective_try_on_root(Comm& comm, const std::function<void()>& action) {
  Comm unlimited = comm.duplicate();
  unlimited.limit(0);
  collective_try(unlimited, [&] {
    if (unlimited.root()) action();
  });
}

void collective_try_each(Comm& comm, Index first, Index count, const std::function<void(Index)>& action) {
  Index at = first;
  Failure failure = attempt([&] {
    for (; at < first + count; ++at) action(at);
  });
  const double none = std::numeric_limits<double>::max(), own = static_cast<double>(at);
  const bool failed = failure.exit_code != 0;
  const double lowest = comm.min(failed ? own : none);
  if (lowest == none) return;
  const auto rank = static_cast<int>(comm.min(failed && own == lowest ? comm.rank() : comm.size()));
  comm.broadcast(std::span(&failure.exit_code, 1), rank);
  comm.broadcast(failure.what, rank);
  raise(failure);
}

}  // namespace mrmf
