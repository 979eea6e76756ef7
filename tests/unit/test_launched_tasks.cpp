// What launchers say that they have started, as Slurm 22.05 and Open MPI 4.1 set their variables.
#include <doctest/doctest.h>

#include <map>
#include <sstream>

#include "mpi/environment.hpp"

using namespace mrmf;

namespace {

using Environment = std::map<std::string, std::string>;

Variable in(const Environment& environment) {
  return [&environment](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  };
}

std::optional<LaunchedTasks> tasks_of(const Environment& environment) { return launched_tasks(in(environment)); }

Environment operator+(Environment one, const Environment& other) {
  for (const auto& [name, value] : other) one[name] = value;
  return one;
}

Environment step(int tasks, int rank) {
  return {{"SLURM_JOB_ID", "7"},    {"SLURM_NTASKS", std::to_string(tasks)},
          {"SLURM_STEP_ID", "0"},   {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)},
          {"SLURM_TASK_PID", "77"}, {"SLURM_PROCID", std::to_string(rank)}};
}

Environment mpirun(int ranks, int rank) {
  return {{"OMPI_COMM_WORLD_SIZE", std::to_string(ranks)},
          {"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"PMIX_RANK", std::to_string(rank)}};
}

Environment pmi2(int ranks, int rank) {
  return {{"PMI_SIZE", std::to_string(ranks)}, {"PMI_RANK", std::to_string(rank)}};
}

const Environment kBatch{{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};

}  // namespace

TEST_CASE("launched tasks: a process by itself, in a batch script, in a shell that Slurm gave") {
  CHECK_FALSE(tasks_of({}));
  CHECK_FALSE(tasks_of(kBatch));
  CHECK_FALSE(tasks_of({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}));  // salloc's shell at home
  CHECK_FALSE(tasks_of(step(1, 0) + Environment{{"SLURM_STEP_ID", "4294967290"}, {"SLURM_NTASKS", "4"}}));  // on a node
  CHECK_FALSE(tasks_of(step(4, 0) + Environment{{"SLURM_STEP_ID", "4294967290"}}));
  CHECK_FALSE(tasks_of(step(4, 0) + Environment{{"SLURM_STEP_ID", "interactive"}}));
  CHECK_FALSE(tasks_of(step(4, 0) + Environment{{"SLURM_PTY_PORT", "38000"}, {"SLURM_PTY_WIN_COL", "80"}}));
  CHECK_FALSE(tasks_of(step(1, 0)));
  CHECK_FALSE(tasks_of(step(4, 2) + kBatch + Environment{{"SLURM_NTASKS", "1"}}));  // submitted from within a step
  CHECK_FALSE(tasks_of(mpirun(1, 0)));
  CHECK_FALSE(tasks_of(kBatch + mpirun(1, 0)));
  CHECK_FALSE(tasks_of(step(4, 1) + mpirun(1, 0)));  // mpirun in every task
  CHECK_FALSE(tasks_of(pmi2(1, 0)));
  CHECK_FALSE(tasks_of(step(4, 1) + Environment{{"SLURM_STEP_NUM_TASKS", "1"}}));  // to work apart
  CHECK_FALSE(tasks_of({{"PMIX_RANK", "0"}}));
  CHECK_FALSE(tasks_of({{"OMPI_COMM_WORLD_SIZE", "many"}, {"PMI_SIZE", ""}, {"PMIX_RANK", "-1"}}));
}

TEST_CASE("launched tasks: srun, with and without PMI, and the way to start them") {
  for (const Environment& more :
       {Environment{}, pmi2(2, 1), Environment{{"PMIX_RANK", "1"}}, Environment{{"PMI_FD", "3"}}}) {
    const auto tasks = tasks_of(step(2, 1) + more);
    REQUIRE(tasks);
    CHECK(tasks->count == 2);
    CHECK_FALSE(tasks->first());
    CHECK(tasks->launcher == "srun");
    CHECK(tasks->text("Open MPI v4.1.4").find("srun started 2 tasks and MPI sees 1") == 0);
    CHECK(tasks->text("Open MPI v4.1.4").find("srun --mpi=pmix") != std::string::npos);
  }
  CHECK(tasks_of(kBatch + step(3, 0))->first());
}

TEST_CASE("launched tasks: a rank above 0 is a task of srun, whatever else it says") {
  const Environment rank{{"SLURM_PROCID", "1"}}, job{{"SLURM_NTASKS", "4"}}, id{{"SLURM_STEP_ID", "0"}},
      count{{"SLURM_STEP_NUM_TASKS", "4"}}, apart{{"SLURM_STEP_NUM_TASKS", "1"}};
  for (const Environment& more :
       {job, job + id, job + count, count, count + id, job + count + id + Environment{{"SLURM_PTY_PORT", "38000"}}}) {
    const auto tasks = tasks_of(rank + more);
    REQUIRE(tasks);
    CHECK(tasks->count == 4);
    CHECK(tasks->rank == 1);
    CHECK(tasks->text("").find("srun started 4 tasks") == 0);
    CHECK(tasks->text("").find("work apart get SLURM_STEP_NUM_TASKS=1") != std::string::npos);
    CHECK_FALSE(tasks_of(rank + more + apart));
    if (more != count + id) CHECK_FALSE(tasks_of(more + Environment{{"SLURM_PROCID", "0"}}));
  }
  CHECK(tasks_of(rank)->text("").find("srun started at least 2 tasks") == 0);
  CHECK(tasks_of(rank + job)->first());  // rank 0 does not know
  CHECK(tasks_of(job + Environment{{"SLURM_PROCID", "3"}})->short_text() ==
        "task 3 of 4 by srun: MPI sees this one alone; task 1 says what to do (tasks that are to work apart get "
        "SLURM_STEP_NUM_TASKS=1)");
  CHECK_FALSE(tasks_of(rank + Environment{{"SLURM_NTASKS", "1"}}));  // of a step around this job
  CHECK_FALSE(tasks_of(rank + job + mpirun(1, 0)));
  CHECK(tasks_of(rank + job + mpirun(2, 1))->launcher == "mpirun");
}

TEST_CASE("launched tasks: srun that tells of them by PMI-1 or 2 alone") {
  const auto told = [](const Environment& environment) { return only_told_by_sruns_pmi(in(environment)); };
  CHECK(told(step(2, 1) + pmi2(2, 1)));
  CHECK(told(step(1, 0) + pmi2(1, 0)));
  CHECK_FALSE(told(step(2, 1)));                                                 // by nothing
  CHECK_FALSE(told(pmi2(2, 1)));                                                 // by another launcher
  CHECK_FALSE(told(step(2, 1) + pmi2(2, 0)));                                    // the same, started by srun
  CHECK_FALSE(told(step(2, 1) + pmi2(2, 1) + Environment{{"PMIX_RANK", "1"}}));  // by PMIx, too
  CHECK_FALSE(told(step(2, 1) + pmi2(2, 1) + mpirun(2, 1)));
}

TEST_CASE("launched tasks: what the text names for tasks that are to work apart makes them so") {
  for (const Environment& more : {Environment{}, pmi2(4, 3), Environment{{"PMIX_RANK", "3"}},
                                  pmi2(4, 3) + Environment{{"PMIX_RANK", "3"}}, Environment{{"PMI_FD", "3"}}})
    for (const bool batch : {false, true}) {
      const Environment environment = (batch ? kBatch : Environment{}) + step(4, 3) + more;
      const auto tasks = tasks_of(environment);
      REQUIRE(tasks);
      const std::string text = tasks->text("Open MPI v4.1.4"), before = "work apart get ";
      REQUIRE(text.find(before) != std::string::npos);
      std::istringstream settings(text.substr(text.find(before) + before.size()));
      Environment apart = environment;
      for (std::string word; settings >> word;) {
        REQUIRE(word.find('=') != std::string::npos);
        apart[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
      }
      CHECK_FALSE(tasks_of(apart));
    }
}

TEST_CASE("launched tasks: launchers of another MPI") {
  const auto another = tasks_of(mpirun(4, 0));
  REQUIRE(another);
  CHECK(another->first());
  CHECK(another->text("Open MPI v4.1.4") ==
        "mpirun says that 4 ranks were started and MPI sees 1 of them, so each would do all of the work by itself, on "
        "the same files; start them with the mpirun of Open MPI v4.1.4; ranks that are to work apart get "
        "OMPI_COMM_WORLD_SIZE=1");
  CHECK_FALSE(tasks_of(kBatch + mpirun(4, 3))->first());
  CHECK(tasks_of(pmi2(8, 0))->launcher == "PMI_SIZE");
  CHECK(tasks_of(step(2, 1) + pmi2(8, 0))->count == 8);  // by two daemons, which srun has started
  CHECK(tasks_of({{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "1"}})->rank == 1);
  CHECK(tasks_of({{"JSM_NAMESPACE_SIZE", "6"}, {"JSM_NAMESPACE_RANK", "5"}})->text("").find("jsrun says that 6") == 0);
  CHECK(tasks_of({{"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_RANK", "1"}})->rank == 1);
  CHECK_FALSE(tasks_of({{"FLUX_JOB_SIZE", "1"}, {"FLUX_TASK_RANK", "0"}}));
  CHECK(tasks_of({{"PALS_RANKID", "2"}})->count == 3);
  CHECK(tasks_of({{"PALS_RANKID", "2"}})->apart == "PALS_RANKID=0");
  const auto first = [](const Environment& environment) { return is_first_task(in(environment)); };
  CHECK((first({}) && first({{"PALS_RANKID", "0"}}) && first({{"PMI_RANK", "0"}, {"SLURM_PROCID", "3"}})));
  CHECK_FALSE((first({{"FLUX_TASK_RANK", "2"}}) || first({{"SLURM_PROCID", "3"}})));
  for (const char* variable :
       {"FLUX_JOB_SIZE=4", "PMI_RANK=1", "JSM_NAMESPACE_SIZE=2", "SLURM_STEP_ID=0", "SLURM_PROCID=1"})
    CHECK(tells_of_tasks(variable));
  for (const char* variable : {"FLUX_URI=local:///x", "OMPI_ALLOW_RUN_AS_ROOT=1", "SLURM_JOB_ID=7", "HOME=/root"})
    CHECK_FALSE(tells_of_tasks(variable));
  const auto pmix = tasks_of({{"PMIX_RANK", "3"}});  // rank 0 does not know
  REQUIRE(pmix);
  CHECK_FALSE(pmix->first());
  CHECK(pmix->text("").find("PMIX_RANK says that at least 4 ranks") == 0);
  CHECK(tasks_of({{"PMIX_RANK", "1"}})->first());
}
