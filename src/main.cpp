// mrmf: start MPI, run what the command line says, turn errors into one line and an exit code.
#include <malloc.h>
#include <unistd.h>

#include <cstdio>

#include "mpi/comm.hpp"
#include "src/command_line.hpp"
#include "src/save_times.hpp"

namespace {

// The root speaks first. Another rank speaks only when it is the one that failed; then all of them end.
int fail(mrmf::Comm& world, const char* message, int exit_code) {
  if (world.root()) {
    std::fprintf(stderr, "mrmf: error: %s\n", message);
  } else {
    sleep(1);
    std::fprintf(stderr, "mrmf: error on rank %d: %s\n", world.rank(), message);
  }
  if (world.size() > 1) world.abort(exit_code);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kFault = 4;
  // Freed memory of a megabyte or more goes back to the system. Kept, it comes to 75 MB in a run of the Neuron
  // Inverter, which `mrmf inspect` could not foresee; that network's steps take 2 to 3 % longer for it.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    const mrmf::MpiSession session(argc, argv);
    mrmf::Comm world = mrmf::Comm::world();
    try {
      return mrmf::run_command_line(argc, argv, world);
    } catch (const mrmf::Stopped&) {
      return mrmf::Stopped::exit_code;  // on all ranks, and the report has said so
    } catch (const mrmf::Error& error) {
      return fail(world, error.what(), error.exit_code());
    } catch (const std::exception& error) {
      return fail(world, error.what(), kFault);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mrmf: error: %s\n", error.what());
    return kFault;
  }
}
