// Entry point of mrmf. Sets how threads wait, starts MPI, runs the command line, and turns errors into one line and an
// exit code:
//
//   0   done
//   2   usage or configuration: ConfigError (kernels/errors.hpp)
//   3   data: DataError (kernels/errors.hpp)
//   4   a fault, or what nothing here foresees: FaultError (kernels/errors.hpp)
//   75  stopped by a signal, and saved: Stopped (src/run/signals.hpp)
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "io/files/output_file.hpp"
#include "io/files/text.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "mpi/cores.hpp"
#include "mpi/environment.hpp"
#include "src/cli/commands.hpp"
#include "src/run/signals.hpp"

namespace {

// Makes waiting threads spin for some microseconds, about as long as waking them takes. libgomp's default is some
// milliseconds, which would take time from the awaited thread when others compute on the machine, too. libgomp reads
// GOMP_SPINCOUNT before main() begins, so this sets it and restarts the program in the same process. Call it before MPI
// is initialised. Does nothing if the environment says how threads wait (GOMP_SPINCOUNT, OMP_WAIT_POLICY). Where
// OpenMP binds threads, this one is bound by now: without leave_place() the restarted program would have that core
// only.
void spin_briefly(char** argv) {
  constexpr const char* kVariable = "GOMP_SPINCOUNT";
  constexpr const char* kSpins = "1000";  // 20 to 60 us
  if (std::getenv(kVariable) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (getauxval(AT_BASE) == 0) return;  // started as an argument of the dynamic linker, which is then the program
  std::error_code unknown;
  // Under its own name, which ps and pkill know.
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown || setenv(kVariable, kSpins, 0) != 0) return;
  mrmf::leave_place();
  mrmf::leave_shared_node();
  execv(program.c_str(), argv);
}

constexpr int kFault = mrmf::FaultError::kExitCode;

/// How the command has ended on this rank.
struct Ending {
  int exit_code = 0;
  std::optional<std::string> error{};
};

// Calls `command` and turns its exceptions into an exit code and a line.
template <typename Command>
Ending ending_of(const Command& command) {
  try {
    return {command()};
  } catch (const mrmf::Stopped&) {
    return {mrmf::Stopped::exit_code};  // on all ranks; the report has already said so
  } catch (const mrmf::Error& error) {
    return {error.exit_code(), mrmf::readable_text(error.what())};
  } catch (const std::bad_alloc&) {
    return {kFault, "out of memory; use more ranks, more nodes, a smaller batch or a coarser resolution"};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return {kFault, error.what()};
    return {kFault,
            "no further thread can be started; raise the limit on processes and memory (ulimit -u, ulimit -v, or the "
            "job's)"};
  } catch (const std::exception& error) {
    return {kFault, error.what()};
  }
}

void say(const std::string& error) {
  const int rank = mrmf::MpiEnvironment::rank();
  if (rank == 0)
    std::fprintf(stderr, "mrmf: error: %s\n", error.c_str());
  else
    std::fprintf(stderr, "mrmf: error on rank %d: %s\n", rank, error.c_str());
}

// Ends all ranks, of which some cannot come to an end themselves. Every rank that failed does this; the lowest speaks
// and ends the others while they wait for their turn. Rank 0 has spoken already.
[[noreturn]] void end_all(const Ending& mine) {
  constexpr int kTurn = 2, kTurns = 4;  // seconds, and how many ranks have one of their own
  if (const int rank = mrmf::MpiEnvironment::rank(); rank > 0) {
    sleep(static_cast<unsigned>(kTurn * std::min(rank, kTurns)));
    if (mine.error) say(*mine.error);
  }
  mrmf::MpiEnvironment::abort(mine.exit_code != 0 ? mine.exit_code : kFault);
}

// The exit code of all ranks, and one line if any of them failed. Rank 0 says its error at once. What another rank says
// depends on whether all come to their end: then the lowest that failed speaks, and none aborts.
int end_together(const mrmf::CommonEnd& ranks, const Ending& mine) {
  const int rank = mrmf::MpiEnvironment::rank();
  mrmf::say_no_more_of_signals();
  mrmf::stay_where_a_signal_ends();
  if (mine.error && rank == 0) say(*mine.error);
  int code = mine.exit_code;
  if (mrmf::MpiEnvironment::ranks() > 1) {
    const auto common = ranks.agree({mine.exit_code, mine.error.has_value()});
    if (!common) end_all(mine);
    if (rank > 0 && rank == common->failed) say(*mine.error);
    code = common->exit_code;
  }
  if (code == 0 || code == mrmf::Stopped::exit_code) mrmf::outlast_a_signal();
  return code;
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
  std::_Exit(mrmf::DataError::kExitCode);
}

// Whether standard output is a pipe without a reader, as in `mrmf plan ... | head -1`, which is no error.
bool reader_gone() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

// Whether nobody else's messages stand beside ours, as where each task has a file of its own; a launcher collects them
// through pipes.
bool has_own_log() {
  struct stat facts {};
  return fstat(STDERR_FILENO, &facts) == 0 && S_ISREG(facts.st_mode);
}

// Tasks that do not know of each other would all do the same, into the same files. One of them says so; the others do
// in short where that line may not be beside theirs, or the launcher's first task does not know of them. `doctor` is
// there to find out, and what only prints (--version, --help) harms nobody.
bool refuse_unseen_tasks(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command.empty() || command.starts_with('-') || command == "doctor" || command == "help") return false;
  const auto tasks = mrmf::launched_tasks([](const char* name) { return std::getenv(name); });
  if (!tasks) return false;
  const std::string mpi = mrmf::MpiEnvironment::version();
  if (tasks->first())
    std::fprintf(stderr, "mrmf: error: %s\n", tasks->text(mpi.substr(0, mpi.find(','))).c_str());
  else if (tasks->lowest > 0 || has_own_log())
    std::fprintf(stderr, "mrmf: error: %s\n", tasks->short_text().c_str());
  return true;
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
  const Ending mine = ending_of([&]() -> int { std::rethrow_exception(error); });
  if (mine.error && mrmf::MpiEnvironment::rank() == 0) say(*mine.error);
  if (mrmf::MpiEnvironment::ranks() == 1) std::_Exit(mine.exit_code);
  end_all(mine);
}

}  // namespace

int main(int argc, char** argv) {
  spin_briefly(argv);
  prepare_process();
  const mrmf::SignalThread signals;
  // Returns freed memory of a megabyte or more to the system. Keeping it takes 75 MB in a run of the Neuron Inverter,
  // which `mrmf inspect` could not foresee. Returning it makes that network's steps 2 to 3 % longer.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const mrmf::Variable variable = [](const char* name) { return std::getenv(name); };
  if (argc > 1 && std::string_view(argv[1]) == "train")
    mrmf::handle_signals_before_training(mrmf::is_first_task(variable));
  try {
    mrmf::forget_unknown_pmi();
    const bool told = mrmf::mpi_is_told(variable);
    if (!told && refuse_unseen_tasks(argc, argv)) return mrmf::ConfigError::kExitCode;
    const mrmf::MpiEnvironment session(argc, argv);
    if (told && mrmf::MpiEnvironment::ranks() == 1 && refuse_unseen_tasks(argc, argv))
      return mrmf::ConfigError::kExitCode;
    std::set_terminate(end_uncaught);
    const mrmf::CommonEnd ranks;
    mrmf::Comm world = mrmf::Comm::world();
    return end_together(ranks, ending_of([&] {
                          const int code = mrmf::run_command_line(argc, argv, world);
                          require_printed();
                          return code;
                        }));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mrmf: error: %s\n", error.what());
    return kFault;
  }
}
