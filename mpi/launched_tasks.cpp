#include "mpi/launched_tasks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>
#include <mpi.h>
#include <stdlib.h>

#include "mpi/comm.hpp"
#include "mpi/session.hpp"

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

}  // namespace mrmf
