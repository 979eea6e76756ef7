// Runs the tests on every rank alike. Each rank keeps its output to itself unless something failed; the run fails when
// one rank fails, when the number of ranks is not MRMF_EXPECT_RANKS (a broken launcher starts n times one rank), or
// when a test makes no progress for MRMF_WATCHDOG_SECONDS (60). With MRMF_TEST_TIMES, rank 0 says how much processor
// time each case took it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <string>

#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "tests/mpi/watchdog.hpp"

namespace {

int environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

/// Set for the life of main; doctest makes its listeners itself.
mrmf::test::Watchdog* watchdog = nullptr;

struct Progress : doctest::IReporter {
  explicit Progress(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& test) override {
    watchdog->progress(test.m_name);
    name = test.m_name;
    start = std::clock();
  }
  void test_case_reenter(const doctest::TestCaseData& test) override { watchdog->progress(test.m_name); }
  void test_case_end(const doctest::CurrentTestCaseStats&) override {
    watchdog->progress("between tests");
    if (std::getenv("MRMF_TEST_TIMES") == nullptr || mrmf::MpiEnvironment::rank() != 0) return;
    std::printf("%8.2f s  %s\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, name.c_str());
  }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

  std::string name;
  std::clock_t start = 0;
};
REGISTER_LISTENER("progress", 0, Progress);

void print_in_turn(mrmf::Comm& world, bool failed, const std::string& output) {
  for (int rank = 0; rank < world.size(); ++rank) {
    if (failed && rank == world.rank()) {
      std::printf("rank %d of %d:\n%s\n", rank, world.size(), output.c_str());
      std::fflush(stdout);
    }
    world.barrier();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const mrmf::MpiEnvironment session(argc, argv);
  mrmf::Comm world = mrmf::Comm::world();
  const int expected = environment("MRMF_EXPECT_RANKS", world.size());
  if (world.size() != expected) {
    std::printf("%d ranks are here, %d were expected: is this mpirun of the MPI library linked?\n", world.size(),
                expected);
    return 1;
  }
  mrmf::test::Watchdog dog(std::chrono::seconds(environment("MRMF_WATCHDOG_SECONDS", 60)), world.rank());
  watchdog = &dog;

  std::ostringstream output;
  doctest::Context context(argc, argv);
  context.setCout(&output);
  context.setOption("no-colors", true);
  const bool failed = context.run() != 0;
  dog.progress("the end of the run");
  print_in_turn(world, failed || (world.root() && context.shouldExit()), output.str());
  const bool any_failed = world.any(failed);
  if (world.root()) std::printf("%d ranks: %s\n", world.size(), any_failed ? "FAILED" : "all tests passed");
  return any_failed ? 1 : 0;
}
