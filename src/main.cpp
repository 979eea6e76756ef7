// Entry point of mrmf. Sets how threads wait, starts MPI, runs the command line, and turns errors into one line and an
// exit code.
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/run/signals.hpp"

namespace {

// Makes waiting threads spin for some microseconds, about as long as waking them takes. libgomp's default is some
// milliseconds, which would take time from the awaited thread when others compute on the machine, too. libgomp reads
// GOMP_SPINCOUNT before main() begins, so this sets it and restarts the program in the same process. Call it before MPI
// is initialised. Does nothing if the environment says how threads wait (GOMP_SPINCOUNT, OMP_WAIT_POLICY).
void spin_briefly(char** argv) {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  constexpr const char* kSpins = "1000";  // 20 to 60 us
  if (std::getenv(kVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (getauxval(AT_BASE) == 0) return;  // started as an argument of the dynamic linker, which is then the program
  std::error_code unknown;
  // Under its own name, which ps and pkill know.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv(kVariable, kSpins, 0) != 0) return;
  execv(program.c_str(), argv);
}

constexpr int kData = 3, kFault = 4;

// The root speaks first; another rank speaks only if it is the one that failed. Then all ranks end.
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

// Calls `command` and turns its exceptions into an exit code.
template <typename Command>
int guarded(const Command& command) {
  try {
    return command();
  } catch (const mrmf::Stopped&) {
    return mrmf::Stopped::exit_code;  // on all ranks; the report has already said so
  } catch (const mrmf::Error& error) {
    return fail(error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return fail("out of memory; use more ranks, more nodes, a smaller batch or a coarser resolution", kFault);
  } catch (const std::exception& error) {
    return fail(error.what(), kFault);
  }
}

// Replaces system defaults that lose work or do harm after an error. Runs before anything is opened.
void prepare_process() {
  // Writes beyond `ulimit -f`, or to a pipe without a reader, must fail with a reason instead of ending the program.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // The next opened file would take the place of a closed standard stream, and messages would go into that file.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) std::_Exit(kFault);
  // Data sets of many files keep many files open, and the usual soft limit is 1,024.
  constexpr rlim_t enough = 65536, least = 32;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  if (files.rlim_cur < std::min(files.rlim_max, enough)) {
    files.rlim_cur = std::min(files.rlim_max, enough);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur >= least) return;
  // With fewer, MPI cannot start and gives another reason.
  std::fprintf(stderr, "mrmf: error: only %llu files may be open at once; raise `ulimit -n` to 256 or more\n",
               static_cast<unsigned long long>(files.rlim_cur));
  std::_Exit(kData);
}

// Whether standard output is a pipe without a reader, as in `mrmf plan ... | head -1`, which is no error.
bool reader_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

// A command's exit code says whether its output has arrived.
void require_printed() {
  std::cout.flush();
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (printed || reader_gone()) return;
  throw mrmf::DataError("standard output cannot be written; is its disk full, or a limit on file sizes reached?");
}

// Handles an exception of another thread, such as the one that watches over a call that hangs (mpi/wait.hpp).
[[noreturn]] void end_uncaught() {
  const std::exception_ptr error = std::current_exception();
  if (!error) std::abort();
  std::_Exit(guarded([&]() -> int { std::rethrow_exception(error); }));
}

}  // namespace

int main(int argc, char** argv) {
  spin_briefly(argv);
  prepare_process();
  // Returns freed memory of a megabyte or more to the system. Keeping it takes 75 MB in a run of the Neuron Inverter,
  // which `mrmf inspect` could not foresee. Returning it makes that network's steps 2 to 3 % longer.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    const mrmf::MpiSession session(argc, argv);
    std::set_terminate(end_uncaught);
    mrmf::Comm world = mrmf::Comm::world();
    return guarded([&] {
      const int code = mrmf::run_command_line(argc, argv, world);
      require_printed();
      return code;
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mrmf: error: %s\n", error.what());
    return kFault;
  }
}
