#include "mpi/launched_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

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
                                   Launcher{"PMI_SIZE", "PMI_SIZE", "PMI_RANK"}};

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

/// What makes a task of a step one that was started by itself: all variables that tell of others.
std::string apart(const Variable& variable) {
  std::string settings = std::string(kSrun.count) + "=1";
  for (const Launcher& launcher : kMpiLaunchers)
    if (number(variable(launcher.count)).value_or(1) > 1) settings += std::string(" ") + launcher.count + "=1";
  if (number(variable("PMIX_RANK")).value_or(0) > 0) settings += " PMIX_RANK=0";
  return settings;
}

}  // namespace

bool mpi_is_told(const Variable& variable) {
  constexpr std::array names{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_FD"};
  return std::ranges::any_of(names, [&](const char* name) { return variable(name) != nullptr; });
}

bool only_told_by_sruns_pmi(const Variable& variable) {
  const std::optional<int> rank = number(variable("PMI_RANK"));
  return rank && rank == number(variable(kSrun.rank)) && variable("SLURM_STEP_ID") != nullptr &&
         variable("PMIX_RANK") == nullptr && variable("OMPI_COMM_WORLD_RANK") == nullptr;
}

std::optional<LaunchedTasks> launched_tasks(const Variable& variable) {
  std::optional<LaunchedTasks> slurm;
  if (in_step(variable)) slurm = told_by(kSrun, variable);
  for (const Launcher& launcher : kMpiLaunchers) {
    std::optional<LaunchedTasks> told = told_by(launcher, variable);
    if (!told) continue;
    if (slurm && slurm->count == told->count && slurm->rank == told->rank) break;  // srun itself
    return told->count > 1 ? told : std::nullopt;
  }
  if (slurm) slurm->apart = apart(variable);
  if (slurm) return slurm->count > 1 ? slurm : std::nullopt;
  // PMIx tells no number of ranks before MPI is asked for it.
  if (const int rank = number(variable("PMIX_RANK")).value_or(0); rank > 0)
    return LaunchedTasks{"PMIX_RANK", rank + 1, rank, 1};
  return {};
}

std::string LaunchedTasks::text(const std::string& mpi) const {
  constexpr const char* end = "each would do all of the work and write the same files";
  if (launcher == "srun")
    return fmt::format(
        "srun started {} tasks and MPI sees 1 of them, so {}; start them with srun --mpi=pmix (srun --mpi=list names "
        "the choices) or with mpirun; tasks that are to work apart get {}",
        count, end, apart);
  return fmt::format(
      "{} says that {}{} ranks were started and MPI sees 1 of them, so {}; start them with the mpirun of {}", launcher,
      lowest > 0 ? "at least " : "", count, end, mpi);
}

}  // namespace mrmf
