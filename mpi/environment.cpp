#include "mpi/environment.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "mpi/wait.hpp"

namespace mrmf {
namespace {

std::optional<int> number(const char* text) {
  if (text == nullptr) return {};
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stopped != end || value < 0) return {};
  return value;
}

/// Variables of a launcher that MPI is to know.
struct Launcher {
  const char* name;
  const char* count;
  const char* rank;
};

// In the order in which they tell: mpirun's ranks inherit Slurm's variables, and srun sets those of PMI itself.
constexpr std::array kMpiLaunchers{Launcher{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   Launcher{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                   Launcher{"PMI_SIZE", "PMI_SIZE", "PMI_RANK"},
                                   Launcher{"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                                   Launcher{"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"}};
// A launcher that MPI is to know tells a process its rank by one of these; in the order in which they tell.
constexpr std::array kRanks{"OMPI_COMM_WORLD_RANK", "PMIX_RANK",      "PMI_RANK",
                            "JSM_NAMESPACE_RANK",   "FLUX_TASK_RANK", "PALS_RANKID"};
// These tell a process its rank, and not how many ranks there are.
constexpr std::array kRanksAlone{"PMIX_RANK", "PALS_RANKID"};

constexpr Launcher kSrun{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"};

std::optional<LaunchedTasks> told_by(const Launcher& launcher, const Variable& variable) {
  const std::optional<int> count = number(variable(launcher.count));
  if (!count) return {};
  return LaunchedTasks{launcher.name, *count, number(variable(launcher.rank)).value_or(0)};
}

// The steps of a batch script and of the shell of salloc are no steps that a user starts. In a step with a terminal
// only its first task has that, and a person types there. A job that is submitted from within a step inherits the
// variables of that step, but has a number of tasks of its own; srun sets that to the step's.
bool in_step(const Variable& variable) {
  const std::optional<int> tasks = number(variable("SLURM_NTASKS"));
  if (tasks && tasks != number(variable(kSrun.count))) return false;
  const char* const step = variable("SLURM_STEP_ID");
  constexpr int kLargest = 0x7fffffff;  // the numbers of special steps lie above it
  return step != nullptr && number(step).value_or(kLargest) < kLargest && variable("SLURM_PTY_PORT") == nullptr;
}

// A rank above 0, of which nothing else tells that srun has started it. Rank 0 does not know then that it has company.
// One that the job's tasks do not reach is not this job's, but inherited.
std::optional<LaunchedTasks> rank_alone(const Variable& variable) {
  const int rank = number(variable(kSrun.rank)).value_or(0);
  const std::optional<int> of_step = number(variable(kSrun.count)), of_job = number(variable("SLURM_NTASKS"));
  if (rank == 0 || of_step == 1 || (of_job && *of_job <= rank)) return {};
  LaunchedTasks tasks{kSrun.name, rank + 1, rank, 1};
  tasks.counted = of_job || (of_step && *of_step > rank);
  if (tasks.counted) tasks.count = of_step && *of_step > rank ? *of_step : *of_job;
  return tasks;
}

/// What makes a task one that was started by itself: all variables that tell of others.
std::string apart(const Variable& variable, bool of_step) {
  std::vector<std::string> settings;
  if (of_step) settings.push_back(std::string(kSrun.count) + "=1");
  for (const Launcher& launcher : kMpiLaunchers)
    if (number(variable(launcher.count)).value_or(1) > 1) settings.push_back(std::string(launcher.count) + "=1");
  for (const char* name : kRanksAlone)
    if (number(variable(name)).value_or(0) > 0) settings.push_back(std::string(name) + "=0");
  return fmt::format("{}", fmt::join(settings, " "));
}

}  // namespace

bool mpi_is_told(const Variable& variable) {
  const auto is_set = [&](const char* name) { return variable(name) != nullptr; };
  return std::ranges::any_of(kRanks, is_set) || is_set("PMI_FD");
}

bool is_first_task(const Variable& variable) {
  const auto is_set = [&](const char* name) { return variable(name) != nullptr; };
  const auto* const told = std::ranges::find_if(kRanks, is_set);
  const char* const rank = variable(told != kRanks.end() ? *told : kSrun.rank);
  return rank == nullptr || std::string_view(rank) == "0";
}

bool tells_of_tasks(std::string_view variable) {
  constexpr std::array<std::string_view, 11> begins{"OMPI_",          "PMIX_",
                                                    "PMI_",           "MV2_COMM_",
                                                    "JSM_",           "PALS_",
                                                    "FLUX_JOB_SIZE=", "FLUX_TASK_RANK=",
                                                    "SLURM_STEP_ID=", "SLURM_STEP_NUM_TASKS=",
                                                    "SLURM_PROCID="};
  return !variable.starts_with("OMPI_ALLOW_") &&
         std::ranges::any_of(begins, [&](std::string_view begin) { return variable.starts_with(begin); });
}

bool only_told_by_sruns_pmi(const Variable& variable) {
  const std::optional<int> rank = number(variable("PMI_RANK"));
  return rank && rank == number(variable(kSrun.rank)) && variable("SLURM_STEP_ID") != nullptr &&
         variable("PMIX_RANK") == nullptr && variable("OMPI_COMM_WORLD_RANK") == nullptr;
}

std::optional<LaunchedTasks> launched_tasks(const Variable& variable) {
  std::optional<LaunchedTasks> slurm = in_step(variable) ? told_by(kSrun, variable) : std::nullopt;
  if (!slurm) slurm = rank_alone(variable);
  for (const Launcher& launcher : kMpiLaunchers) {
    std::optional<LaunchedTasks> told = told_by(launcher, variable);
    if (!told) continue;
    if (slurm && slurm->count == told->count && slurm->rank == told->rank) break;  // srun itself
    told->apart = apart(variable, false);
    return told->count > 1 ? told : std::nullopt;
  }
  if (slurm) slurm->apart = apart(variable, true);
  if (slurm) return slurm->count > 1 ? slurm : std::nullopt;
  for (const char* name : kRanksAlone)
    if (const int rank = number(variable(name)).value_or(0); rank > 0)
      return LaunchedTasks{name, rank + 1, rank, 1, apart(variable, false), false};
  return {};
}

std::string LaunchedTasks::text(const std::string& mpi) const {
  constexpr const char* end = "each would do all of the work by itself, on the same files";
  if (launcher == "srun")
    return fmt::format(
        "srun started {}{} tasks and MPI sees 1 of them, so {}; start them with srun --mpi=pmix (srun --mpi=list names "
        "the choices) or with mpirun; tasks that are to work apart get {}",
        counted ? "" : "at least ", count, end, apart);
  return fmt::format(
      "{} says that {}{} ranks were started and MPI sees 1 of them, so {}; start them with the mpirun of {}; ranks "
      "that are to work apart get {}",
      launcher, counted ? "" : "at least ", count, end, mpi, apart);
}

std::string LaunchedTasks::short_text() const {
  return fmt::format(
      "task {} of {}{} by {}: MPI sees this one alone; task {} says what to do (tasks that are to work apart get {})",
      rank, counted ? "" : "at least ", count, launcher, lowest, apart);
}

namespace {

std::vector<std::string> found(const std::string& pattern) {
  glob_t paths{};
  std::vector<std::string> all;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &paths) == 0)
    all.assign(paths.gl_pathv, paths.gl_pathv + paths.gl_pathc);
  ::globfree(&paths);
  return all;
}

/// The folder of MPI's library; "" where it is part of the program.
std::filesystem::path library_folder() {
  Dl_info library{};
  void* const function = ::dlsym(RTLD_DEFAULT, "MPI_Init");
  if (function == nullptr || ::dladdr(function, &library) == 0 || library.dli_fname == nullptr) return {};
  std::error_code unknown;
  return std::filesystem::canonical(library.dli_fname, unknown).parent_path();
}

/// Whether Open MPI was certainly built without PMI-1 and 2: from version 5 on, and before by its plug-ins, of which s1
/// and s2 are for these. Where none is found, they may be part of the library.
bool is_without_pmi() {
  constexpr std::string_view kName = "Open MPI v";
  const std::string version = MpiEnvironment::version();
  if (!version.starts_with(kName)) return false;
  int major = 0;
  std::from_chars(version.data() + kName.size(), version.data() + version.size(), major);
  if (major >= 5) return true;
  const std::string folder = library_folder().string();
  // As usual; Debian's; those of a bundle, which keeps Debian's places below its own libraries.
  for (const std::string plugins : {"/openmpi*", "/openmpi/lib/openmpi*", "/*/openmpi/lib/openmpi*"}) {
    const std::vector<std::string> all = found(folder + plugins + "/mca_pmix_*.so");
    if (all.empty()) continue;
    return std::ranges::none_of(
        all, [](const std::string& path) { return path.ends_with("_s1.so") || path.ends_with("_s2.so"); });
  }
  return false;
}

}  // namespace

void forget_unknown_pmi() {
  if (!only_told_by_sruns_pmi([](const char* name) { return std::getenv(name); }) || !is_without_pmi()) return;
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_JOBID"}) ::unsetenv(name);
}

namespace {

/// A variable of the environment while this lives, where the user has not set it.
class PassingVariable {
 public:
  PassingVariable(const char* name, const char* value) : name_(std::getenv(name) == nullptr ? name : nullptr) {
    if (name_ != nullptr) ::setenv(name_, value, 0);
  }
  PassingVariable(const PassingVariable&) = delete;
  PassingVariable& operator=(const PassingVariable&) = delete;
  ~PassingVariable() {
    if (name_ != nullptr) ::unsetenv(name_);
  }

 private:
  const char* name_;  ///< null: the user has set it
};

/// This program's defaults for Open MPI, which reads them when it starts. The user's environment takes precedence, and
/// programs that this one starts do not get them.
std::vector<std::unique_ptr<PassingVariable>> defaults() {
  std::vector<std::unique_ptr<PassingVariable>> set;
  const auto add = [&](const char* name, const char* value) {
    set.push_back(std::make_unique<PassingVariable>(name, value));
  };
  // Data sieving on reads may return wrong values in the whole 4.1 line (open-mpi/ompi issue 10546).
  add("OMPI_MCA_fbtl_posix_read_datasieving", "0");
  // Warnings that an idle InfiniBand or openib device was not used: true, harmless, and once per rank.
  add("OMPI_MCA_btl_base_warn_component_unused", "0");
  add("OMPI_MCA_btl_openib_warn_no_device_params_found", "0");
  add("OMPI_MCA_btl_openib_warn_default_gid_prefix", "0");
  // Without mpirun: become one rank at once. Otherwise a daemon would be started for processes that are never spawned.
  add("OMPI_MCA_ess_singleton_isolated", "1");
  if (mpi_is_told([](const char* name) { return std::getenv(name); })) return set;
  // In a step of srun Open MPI would look for the others, and end the program where nobody tells it of them.
  ::unsetenv("SLURM_STEP_ID");
  // A user's ranks without mpirun would share one folder for temporary files, which each makes and removes. Of several
  // simultaneous commands some failed in MPI_Init. A single rank needs no such folder.
  add("OMPI_MCA_orte_create_session_dirs", "0");
  // Nor does it look for a fabric: opening Omni-Path's library alone takes 0.2 s.
  add("OMPI_MCA_pml", "ob1"), add("OMPI_MCA_btl", "self");
  // Nor for displays, GPUs, PCI devices and disks, which takes a quarter of a short command's processor time.
  add("HWLOC_COMPONENTS", "-gl,-opencl,-cuda,-nvml,-pci,-linuxio");
  return set;
}

}  // namespace

MpiEnvironment::MpiEnvironment(int& argc, char**& argv) {
  const auto until_started = defaults();
  int provided = MPI_THREAD_SINGLE;
  // If this fails, MPI ends the program with its own message, because no communicator has our handler yet.
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (provided < MPI_THREAD_FUNNELED) {
    MPI_Finalize();
    throw FaultError("this MPI was built without threads (MPI_THREAD_FUNNELED); load another MPI module");
  }
}

MpiEnvironment::~MpiEnvironment() { MPI_Finalize(); }

int MpiEnvironment::rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiEnvironment::ranks() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

void MpiEnvironment::abort(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::abort();  // MPI_Abort does not return
}

std::string MpiEnvironment::version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string line(text, static_cast<std::size_t>(std::max(length, 0)));
  while (!line.empty() && (line.back() == '\0' || line.back() == '\n')) line.pop_back();
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

namespace {

// The smallest number of all ranks is what they end with: first errors, then what is neither an error nor success.
enum class Urgency : std::int64_t { error, stop, success };

std::int64_t packed(const CommonEnd::Mine& mine, int rank) {
  const Urgency urgency = mine.failed ? Urgency::error : mine.exit_code != 0 ? Urgency::stop : Urgency::success;
  return static_cast<std::int64_t>(urgency) << 48 | std::int64_t{rank} << 8 | (mine.exit_code & 0xff);
}

CommonEnd::Common unpacked(std::int64_t number) {
  const bool failed = number >> 48 == static_cast<std::int64_t>(Urgency::error);
  return {static_cast<int>(number & 0xff), failed ? static_cast<int>(number >> 8 & 0xffffffff) : -1};
}

}  // namespace

struct CommonEnd::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  std::int64_t least = 0;  // the least of all ranks; here, because MPI may write to it after it was given up

  State() {
    mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    mpi::check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi::check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  }
  ~State() { MPI_Comm_free(&comm); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

CommonEnd::CommonEnd() : state_(std::make_unique<State>()) {}
CommonEnd::~CommonEnd() = default;

std::optional<CommonEnd::Common> CommonEnd::agree(const Mine& mine) const {
  if (mpi::abandoned_calls()) return {};
  std::int64_t& least = state_->least;
  least = packed(mine, state_->rank);
  try {
    mpi::Request request("MPI_Iallreduce");
    mpi::check(MPI_Iallreduce(MPI_IN_PLACE, &least, 1, MPI_INT64_T, MPI_MIN, state_->comm, request.begun()),
               "MPI_Iallreduce");
    const WaitLimit limit{mine.failed ? kLimit : 0};
    request.finish(limit);
  } catch (const FaultError&) {  // MPI itself is broken, or the others do not come
    return {};
  }
  return unpacked(least);
}

}  // namespace mrmf
