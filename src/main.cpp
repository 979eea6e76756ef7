// mrmf: set how threads wait, start MPI, run what the command line says, turn errors into one line and an exit code.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "mpi/comm.hpp"
#include "src/command_line.hpp"
#include "src/save_times.hpp"
#include "src/spinning.hpp"

namespace {

constexpr int kFault = 4;

// The root speaks first. Another rank speaks only when it is the one that failed; then all of them end.
int fail(const char* message, int exit_code) {
  const int rank = mrmf::MpiSession::rank();
  if (rank == 0) {
    std::fprintf(stderr, "mrmf: error: %s\n", message);
  } else {
    sleep(1);
    std::fprintf(stderr, "mrmf: error on rank %d: %s\n", rank, message);
  }
  if (mrmf::MpiSession::ranks() > 1) mrmf::MpiSession::abort(exit_code);
  return exit_code;
}

// Calls `command` and turns what it throws into an exit code.
template <typename Command>
int guarded(const Command& command) {
  try {
    return command();
  } catch (const mrmf::Stopped&) {
    return mrmf::Stopped::exit_code;  // on all ranks, and the report has said so
  } catch (const mrmf::Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return fail(error.what(), kFault);
  }
}

// What a thread of its own throws, as one that watches over a call that hangs (mpi/deadline.hpp).
[[noreturn]] void end_uncaught() {
  const std::exception_ptr error = std::current_exception();
  if (!error) std::abort();
  std::_Exit(guarded([&]() -> int { std::rethrow_exception(error); }));
}

}  // namespace

int main(int argc, char** argv) {
  mrmf::spin_briefly(argv);
  // Freed memory of a megabyte or more goes back to the system. Kept, it comes to 75 MB in a run of the Neuron
  // Inverter, which `mrmf inspect` could not foresee; that network's steps take 2 to 3 % longer for it.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    const mrmf::MpiSession session(argc, argv);
    std::set_terminate(end_uncaught);
    mrmf::Comm world = mrmf::Comm::world();
    return guarded([&] { return mrmf::run_command_line(argc, argv, world); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mrmf: error: %s\n", error.what());
    return kFault;
  }
}
