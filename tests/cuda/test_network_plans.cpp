// Every convolution of both networks has plans on an H100 and on an A100: built, support-checked, within the workspace
// limit, on tensor cores where that is promised, and with precompiled kernels: NVRTC takes seconds.
#include <doctest/doctest.h>

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "tests/cuda/devices.hpp"
#include "tests/cuda/networks.hpp"

using namespace mrmf;
using namespace mrmf::cuda;

namespace {

const std::size_t limit = PlanLimits{}.workspace;

/// Where the tensor-core engines want more than the limit, from a number of positions (rows x input size) on.
struct Exception {
  ConvPass pass;
  Index in_channels, out_channels, positions;
};
// On sm_80 the TF32 engines for gradients first copy x and dy into another layout. CUDA cores do these layers within
// the limit; bf16 has no such copies, and sm_90's engines need none.
const std::vector<Exception> a100_tf32{
    {ConvPass::backward_weights, 4, 32, 512 * 1600},     {ConvPass::backward_weights, 32, 92, 512 * 399},
    {ConvPass::backward_data, 32, 92, 512 * 399},        {ConvPass::backward_weights, 4, 16, 8 * 64 * 64 * 64},
    {ConvPass::backward_data, 4, 16, 8 * 64 * 64 * 64},  {ConvPass::backward_weights, 16, 32, 8 * 32 * 32 * 64},
    {ConvPass::backward_data, 16, 32, 8 * 32 * 32 * 64}, {ConvPass::backward_weights, 32, 64, 8 * 32 * 32 * 32},
    {ConvPass::backward_data, 32, 64, 8 * 32 * 32 * 32},
};

bool tensor_cores_expected(const ConvProblem& problem, const std::string& device) {
  if (problem.precision == Precision::fp32) return false;
  if (problem.precision == Precision::bf16 || device != "a100") return true;
  const ConvGeometry& g = problem.geometry;
  for (const Exception& e : a100_tf32) {
    if (problem.pass == e.pass && g.in_channels == e.in_channels && g.out_channels == e.out_channels &&
        problem.rows * product(g.in) >= e.positions) {
      return false;
    }
  }
  return true;
}

/// Is there an engine with tensor cores among those that may be timed?
bool tensor_cores_offered(const ConvProblem& problem, const DeviceModel& device) {
  ConvProposals proposals(problem, device, limit);
  while (const auto config = proposals.next()) {
    if (config->notes.tensor_cores) return true;
  }
  return false;
}

struct Outcome {
  int problems = 0;
  int made = 0;
  std::vector<std::string> failures;  ///< empty when all is well
};

void check_problem(const ConvProblem& problem, const std::string& name, const DeviceModel& device, Outcome& outcome) {
  ++outcome.problems;
  const auto fail = [&](const std::string& what) { outcome.failures.push_back(describe(problem) + ": " + what); };
  ConvProposals proposals(problem, device, limit);
  const auto config = proposals.next();
  if (!config) return fail("no plan; " + proposals.last_refusal());
  if (config->workspace > limit) fail("workspace");
  // The first choice tells for bf16; TF32's heuristics may put a CUDA-core engine first, and timing decides.
  const bool offered = config->notes.tensor_cores || tensor_cores_offered(problem, device);
  if (offered != tensor_cores_expected(problem, name)) fail(offered ? "tensor cores after all" : "no tensor cores");
  if (problem.precision == Precision::bf16 && !config->notes.tensor_cores)
    fail("tensor cores are not the first choice");
  if (config->notes.compiled) return fail("the first choice wants NVRTC");
  std::string reason;
  const auto plan = ExecutionPlan::make(*config, device, reason);
  if (!plan) return fail("the first choice, " + describe(*config) + ", is refused: " + reason);
  if (plan->workspace() > limit) fail("the plan's workspace is above what the engine announced");
  ++outcome.made;
}

Outcome check_device(const std::string& name) {
  const DeviceModel device = described_device(name);
  Outcome outcome;
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32}) {
    for (const ConvProblem& problem : network_problems(precision)) check_problem(problem, name, device, outcome);
  }
  return outcome;
}

void check(const std::string& name, const Outcome& outcome) {
  INFO(name);
  for (const std::string& failure : outcome.failures) FAIL_CHECK(failure);
  // 8 cubes x 7 layers x 3 passes and 6 lengths x 8 passes, once each: a derivation that lost some would go unnoticed.
  CHECK(outcome.problems == 3 * 192);
  CHECK(outcome.made == outcome.problems);
}

}  // namespace

// A kernel that NVRTC compiles hangs on a library that may be missing, on one engine, and on seconds at every start.
TEST_CASE("no convolution of both networks needs a kernel that is compiled at run time, in any precision") {
  const DeviceModel device = described_device("h100");
  for (const Precision precision : {Precision::bf16, Precision::tf32, Precision::fp32})
    for (const bool deterministic : {false, true})
      for (ConvProblem problem : network_problems(precision)) {
        problem.deterministic = deterministic;
        INFO(describe(problem));
        CHECK(!problem.bias);
        PlanLimits limits;
        limits.candidates = 1;
        const std::optional<ConvPlan> plan = ConvCandidates(problem, device, limits).next();
        REQUIRE(plan);
        CHECK(plan->description().find("compiled at run time") == std::string::npos);
      }
}

TEST_CASE("every convolution of both networks has plans on an H100 and an A100") {
  auto a100 = std::async(std::launch::async, check_device, "a100");
  check("h100", check_device("h100"));
  check("a100", a100.get());
}
