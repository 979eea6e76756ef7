// Unit tests run as one MPI rank: parallel HDF5 needs MPI also then.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cpu/instruction_set.hpp"
#include "mpi/comm.hpp"
#include "mpi/environment.hpp"
#include "tests/unit/support/backends.hpp"

namespace {

/// Says how many cases ran on CUDA, where that is asked for: green with none of them would mean nothing.
class CudaCount final : public doctest::IReporter {
 public:
  explicit CudaCount(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    if (!mrmf::test::tests_cuda()) return;
    std::printf("cuda: %u of %u cases run\n", run_, stats.numTestCasesPassingFilters);
  }
  void test_case_start(const doctest::TestCaseData&) override { mrmf::test::used_cuda() = false; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override { run_ += mrmf::test::used_cuda() ? 1 : 0; }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  unsigned run_ = 0;
};

/// False where the processor lacks what the environment asks for: green with another instruction set would mean
/// nothing.
bool instruction_set_is_there() {
  const char* asked = std::getenv("MRMF_MAX_CPU_ISA");
  const std::string used = mrmf::cpu::name(mrmf::cpu::instruction_set());
  if (asked == nullptr || used == asked) return true;
  std::printf("unit: SKIPPED, nothing is tested: MRMF_MAX_CPU_ISA=%s, and the best set here is %s\n", asked,
              used.c_str());
  return false;
}

}  // namespace

DOCTEST_REGISTER_LISTENER("cuda", 1, CudaCount);

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  if (!instruction_set_is_there()) return skipped;
  const mrmf::MpiEnvironment mpi(argc, argv);
  doctest::Context context(argc, argv);
  return context.run();
}
