#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/errors.hpp"
#include "tests/cuda/devices.hpp"

using namespace mrmf;
using namespace mrmf::cuda;

namespace {

/// CosmoFlow's fourth convolution, which halves: TensorFlow's "same" pads 0 before and 1 after.
ConvProblem halving(ConvPass pass, Precision precision) {
  ConvProblem problem;
  problem.pass = pass;
  problem.geometry.in_channels = 64;
  problem.geometry.out_channels = 128;
  problem.geometry.in = {16, 16, 16};
  problem.geometry.kernel = {3, 3, 3};
  problem.geometry.stride = {2, 2, 2};
  problem.geometry.pad_after = {1, 1, 1};
  problem.rows = 8;
  problem.precision = precision;
  problem.bias = pass == ConvPass::forward;
  return problem;
}

constexpr std::array passes{ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weights};

/// What cuDNN itself wrote down of a plan's graph.
nlohmann::json graph_of(const ConvPlan& plan) {
  const nlohmann::json kept = nlohmann::json::parse(plan.json());
  return nlohmann::json::parse(kept["plan"].get<std::string>())["operationGraph"];
}

std::vector<int> numbers(const nlohmann::json& list) { return list.get<std::vector<int>>(); }

std::string what_fails(const ConvProblem& problem, const DeviceModel& device, const std::string& text) {
  try {
    conv_plan_from_json(problem, device, text);
  } catch (const FaultError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a problem's description tells everything that a plan depends on") {
  const ConvProblem base = halving(ConvPass::forward, Precision::bf16);
  CHECK(describe(base) == "forward 64->128 k3x3x3 s2x2x2 p0x0x0+1x1x1 at 16x16x16, 8 rows, bf16, bias");
  std::vector<ConvProblem> all(13, base);
  all[1].pass = ConvPass::backward_data;
  all[2].geometry.in_channels = 8;
  all[3].geometry.out_channels = 8;
  all[4].geometry.in = {8, 16, 16};
  all[5].geometry.kernel = {3, 3, 2};
  all[6].geometry.stride = {1, 2, 2};
  all[7].geometry.pad_before = {0, 1, 0};
  all[8].rows = 4;
  all[9].precision = Precision::tf32;
  all[10].bias = false;
  all[11].deterministic = true;
  all[12].geometry.dilation = {1, 2, 2};
  std::set<std::string> texts;
  for (const ConvProblem& problem : all) texts.insert(describe(problem));
  CHECK(texts.size() == all.size());
}

// cuDNN refuses a graph whose output is not what padding, stride and dilation make of its input.
TEST_CASE("a dilated convolution has plans in every pass, and keeps its size with twice the padding") {
  const DeviceModel device = described_device("h100");
  for (const ConvPass pass : passes)
    for (const Precision precision : {Precision::tf32, Precision::bf16}) {
      ConvProblem problem = halving(pass, precision);
      problem.geometry.stride = {1, 1, 1};
      problem.geometry.dilation = problem.geometry.pad_before = problem.geometry.pad_after = {2, 2, 2};
      INFO(describe(problem));
      CHECK(problem.geometry.out() == problem.geometry.in);
      CHECK(!conv_candidates(problem, device, {std::size_t{64} << 20, 1}).empty());
    }
}

TEST_CASE("fp32 uses no tensor cores, deterministic plans no nondeterministic engine, sums stay fp32") {
  const DeviceModel device = described_device("h100");
  for (const ConvPass pass : passes) {
    for (const Precision precision : {Precision::fp32, Precision::tf32}) {
      ConvProblem problem = halving(pass, precision);
      problem.geometry.pad_before = {1, 1, 1};  // the case that has nondeterministic engines
      bool nondeterministic = false;
      for (const bool deterministic : {false, true}) {
        problem.deterministic = deterministic;
        INFO(describe(problem));
        ConvProposals proposals(problem, device, PlanLimits{}.workspace);
        int count = 0;
        while (const auto config = proposals.next()) {
          ++count;
          CHECK(!config->notes.reduced_reduction);
          if (precision == Precision::fp32) CHECK(!config->notes.tensor_cores);
          if (precision == Precision::fp32) CHECK(!config->notes.transforms);
          if (deterministic) CHECK(!config->notes.nondeterministic);
          nondeterministic = nondeterministic || config->notes.nondeterministic;
        }
        CHECK(count > 0);
      }
      // The rule is exercised where cuDNN has such engines: here in the pass for the input's gradient.
      if (pass == ConvPass::backward_data) CHECK(nondeterministic);
    }
  }
}

TEST_CASE("engines to avoid are no candidates, whatever their knobs") {
  const DeviceModel device = described_device("h100");
  const ConvProblem problem = halving(ConvPass::backward_weights, Precision::tf32);
  PlanLimits limits{std::size_t{64} << 20, 4};
  const std::string first = conv_candidates(problem, device, limits)[0].engine();
  CHECK(first.find("engine ") == 0);
  CHECK(first.find_first_not_of("0123456789", 7) == std::string::npos);
  limits.avoid = {first};
  for (const ConvPlan& plan : conv_candidates(problem, device, limits)) CHECK(plan.engine() != first);
}

TEST_CASE("candidates are distinct, within both limits, and the memory bound is what the graph names") {
  const DeviceModel device = described_device("h100");
  for (const ConvPass pass : passes) {
    const ConvProblem problem = halving(pass, Precision::tf32);
    INFO(describe(problem));
    const std::vector<ConvPlan> plans = conv_candidates(problem, device, {std::size_t{4} << 20, 5});
    CHECK(plans.size() == 5);
    std::set<std::string> descriptions;
    for (const ConvPlan& plan : plans) {
      descriptions.insert(plan.description());
      CHECK(plan.workspace() <= std::size_t{4} << 20);
    }
    CHECK(descriptions.size() == plans.size());

    std::set<std::string> named;
    const nlohmann::json graph = graph_of(plans[0]);
    for (const auto& tensor : graph["tensors"]) {
      if (!tensor["isVirtual"].get<bool>()) named.insert(tensor["name"].get<std::string>());
    }
    std::set<std::string> bound;
    const ExecutionPlan::Binding binding = bind_conv(problem.pass, problem.bias, {});
    for (const std::int64_t id : binding.ids) bound.insert(std::to_string(id));
    CHECK(bound == named);
    CHECK(binding.pointers.size() == binding.ids.size());
  }
}

TEST_CASE("each pointer is bound to the tensor that its shape belongs to") {
  const DeviceModel device = described_device("h100");
  const float x = 1, w = 2, bias = 3, dy = 4;
  float result = 5;
  const ConvPointers pointers{&x, &w, &bias, &dy, &result};
  for (const ConvPass pass : passes) {
    const ConvProblem problem = halving(pass, Precision::tf32);
    INFO(describe(problem));
    const std::vector<int> x_dims{8, 64, 16, 16, 16}, w_dims{128, 64, 3, 3, 3}, y_dims{8, 128, 8, 8, 8};
    const auto result_dims = pass == ConvPass::forward ? y_dims : pass == ConvPass::backward_data ? x_dims : w_dims;
    const auto dims_of = [&](const void* pointer) {
      if (pointer == &x) return x_dims;
      if (pointer == &w) return w_dims;
      if (pointer == &dy) return y_dims;
      return pointer == &bias ? std::vector<int>{1, 128, 1, 1, 1} : result_dims;
    };
    const auto graph = graph_of(conv_candidates(problem, device, {PlanLimits{}.workspace, 1})[0]);
    const ExecutionPlan::Binding binding = bind_conv(pass, problem.bias, pointers);
    std::size_t found = 0;
    for (std::size_t i = 0; i < binding.ids.size(); ++i) {
      for (const auto& tensor : graph["tensors"]) {
        if (tensor["name"].get<std::string>() != std::to_string(binding.ids[i])) continue;
        CHECK(numbers(tensor["dim"]) == dims_of(binding.pointers[i]));
        ++found;
      }
    }
    CHECK(found == (problem.bias ? 4 : 3));
    CHECK(numbers(graph["nodes"][0]["pad_lower"]) == std::vector<int>{0, 0, 0});
    CHECK(numbers(graph["nodes"][0]["pad_upper"]) == std::vector<int>{1, 1, 1});
    CHECK(numbers(graph["nodes"][0]["stride"]) == std::vector<int>{2, 2, 2});
  }
}

TEST_CASE("plans written down come back the same, also compiled ones with uneven padding") {
  for (const char* name : {"h100", "a100"}) {
    const DeviceModel device = described_device(name);
    for (const ConvPass pass : passes) {
      // One compiled plan is enough here: it takes a second.
      const bool compiled = pass == ConvPass::forward && std::string(name) == "h100";
      const ConvProblem problem = halving(pass, compiled ? Precision::bf16 : Precision::tf32);
      INFO(device.key() << ": " << describe(problem));
      const ConvPlan plan = std::move(conv_candidates(problem, device, {PlanLimits{}.workspace, 1})[0]);
      const ConvPlan again = conv_plan_from_json(problem, device, plan.json());
      CHECK(again.json() == plan.json());
      CHECK(again.workspace() == plan.workspace());
      CHECK(again.description() == plan.description());
      CHECK((again.description().find("compiled at run time") != std::string::npos) == compiled);
    }
  }
}

TEST_CASE("no more plans are compiled at run time than may be") {
  // With a bias, every bf16 forward plan needs NVRTC.
  CHECK(PlanLimits{}.compiled == 2);
  const ConvProblem problem = halving(ConvPass::forward, Precision::bf16);
  PlanLimits limits;
  limits.compiled = 1;
  std::vector<std::string> tried;
  limits.trying = [&](const std::string& engine) { tried.push_back(engine); };
  const DeviceModel device = described_device("h100");
  ConvCandidates candidates(problem, device, limits);
  CHECK(!candidates.next());
  CHECK(tried.empty());  // nothing was compiled on the way
  const auto plan = candidates.next_compiled();
  REQUIRE(plan);
  CHECK(plan->description().find("compiled at run time") != std::string::npos);
  CHECK(tried == std::vector<std::string>{plan->engine()});
  CHECK(!candidates.next_compiled());
}

TEST_CASE("a plan for a convolution whose bias is added behind it comes back as such") {
  const DeviceModel device = described_device("h100");
  const ConvProblem problem = halving(ConvPass::forward, Precision::tf32);
  ConvProblem bare = problem;
  bare.bias = false;
  const ConvPlan whole = std::move(conv_candidates(problem, device, {PlanLimits{}.workspace, 1})[0]);
  const ConvPlan part = std::move(conv_candidates(bare, device, {PlanLimits{}.workspace, 1})[0]);
  CHECK(whole.adds_bias());
  CHECK(!part.adds_bias());
  CHECK(conv_plan_from_json(problem, device, whole.json()).adds_bias());
  CHECK(!conv_plan_from_json(problem, device, part.json()).adds_bias());
  CHECK(what_fails(problem, device, R"({"plan": "", "description": "", "bias": 3})").find("damaged") !=
        std::string::npos);
}

TEST_CASE("what cannot be done is one line that names it") {
  const DeviceModel device = described_device("h100");
  const ConvProblem problem = halving(ConvPass::backward_data, Precision::tf32);
  CHECK(what_fails(problem, device, "{").find("damaged") != std::string::npos);
  CHECK(what_fails(problem, device, R"({"plan": 3, "description": ""})").find("damaged") != std::string::npos);
  const std::string refused = what_fails(problem, device, R"({"plan": "{}", "description": ""})");
  CHECK(refused.find("cuDNN: CUDNN_STATUS_BAD_PARAM") == 0);
  CHECK(refused.find('\n') == std::string::npos);
  CHECK_THROWS_AS(DeviceModel::from_json("{}"), FaultError);
  CHECK_THROWS_AS(DeviceModel::from_json("no JSON"), FaultError);
  CHECK_THROWS_AS(DeviceModel::from_json(R"({"deviceName": "NVIDIA H200"})"), FaultError);  // the rest is missing

  const ConvProblem impossible = halving(ConvPass::backward_weights, Precision::bf16);
  std::string message;
  try {
    conv_candidates(impossible, device, {.workspace = 64 << 20, .candidates = 0});  // none is looked at
  } catch (const FaultError& error) {
    message = error.what();
  }
  CHECK(message == "no plan for " + describe(impossible) + ": 0 proposals of cuDNN");
}

TEST_CASE("a described device names itself and gives its description back") {
  const DeviceModel device = described_device("a100");
  CHECK(device.name() == "NVIDIA A100-SXM4-80GB");
  CHECK(device.key().find("NVIDIA A100-SXM4-80GB, cuDNN 9.") == 0);
  CHECK(DeviceModel::from_json(device.json()).json() == device.json());
  CHECK(nlohmann::json::parse(device.json())["multiProcessorCount"].get<int>() == 108);
}
