#include "kernels/cuda/conv_plan.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kernels/check.hpp"
#include "kernels/cuda/conv_graph.hpp"
#include "kernels/cuda/conv_proposals.hpp"

namespace mrmf::cuda {
namespace {

std::string by_x(const Extent& e) {
  return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]);
}

std::string to_string(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward: return "forward";
    case ConvPass::backward_data: return "backward data";
    case ConvPass::backward_weights: return "backward weights";
  }
  return "?";
}

std::string to_string(Precision precision) {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::tf32 ? "tf32" : "bf16";
}

/// "engine 11" of "engine 11 (knobs 24=26), tensor cores".
std::string engine_of(const std::string& description) {
  const std::size_t number = description.find(' ') + 1;
  return description.substr(0, description.find_first_of(" ,", number));
}

}  // namespace

std::string describe(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  std::string text = to_string(problem.pass) + " " + std::to_string(g.in_channels) + "->" +
                     std::to_string(g.out_channels) + " k" + by_x(g.kernel) + " s" + by_x(g.stride) + " p" +
                     by_x(g.pad_before) + "+" + by_x(g.pad_after) + " at " + by_x(g.in) + ", " +
                     std::to_string(problem.rows) + " rows, " + to_string(problem.precision);
  if (problem.bias) text += ", bias";
  if (problem.deterministic) text += ", deterministic";
  return text;
}

std::string kind_of(const ConvProblem& problem) {
  return to_string(problem.pass) + ", " + to_string(problem.precision) + (problem.bias ? ", bias" : "");
}

ConvPlan::ConvPlan(const ConvProblem& problem, ExecutionPlan plan, std::string description)
    : pass_(problem.pass), bias_(problem.bias), plan_(std::move(plan)), description_(std::move(description)) {}

std::string ConvPlan::engine() const { return engine_of(description_); }

std::string ConvPlan::json() const {
  return nlohmann::json{{"description", description_}, {"plan", plan_.json()}}.dump();
}

void ConvPlan::run(cudnnHandle_t handle, const ConvPointers& pointers, void* workspace) const {
  plan_.run(handle, bind_conv(pass_, bias_, pointers), workspace);
}

std::vector<ConvPlan> conv_candidates(const ConvProblem& problem, const DeviceModel& device, const PlanLimits& limits) {
  ConvProposals proposals(problem, device, limits.workspace);
  std::vector<ConvPlan> plans;
  int compiled = 0;
  while (static_cast<int>(plans.size()) < limits.candidates) {
    const std::optional<EngineConfig> config = proposals.next();
    if (!config) break;
    if (limits.avoid.contains(engine_of(describe(*config)))) {
      proposals.refuse(*config, "it broke the device before");
      continue;
    }
    if (config->notes.compiled && ++compiled > limits.compiled) continue;
    std::string reason;
    std::optional<ExecutionPlan> plan = ExecutionPlan::make(*config, device, reason);
    if (plan) {
      plans.emplace_back(problem, std::move(*plan), describe(*config));
    } else {
      proposals.refuse(*config, reason);
    }
  }
  if (plans.empty()) {
    throw FaultError("cuDNN has no plan for " + describe(problem) + " on " + device.key() + ": " +
                     std::to_string(proposals.seen()) + " proposals refused" +
                     (proposals.last_refusal().empty() ? "" : ", the last: " + proposals.last_refusal()));
  }
  return plans;
}

ConvPlan conv_plan_from_json(const ConvProblem& problem, const DeviceModel& device, const std::string& text) {
  const nlohmann::json kept = nlohmann::json::parse(text, nullptr, false);
  if (!kept.is_object() || !kept.contains("plan") || !kept.contains("description") || !kept["plan"].is_string() ||
      !kept["description"].is_string()) {
    throw FaultError("the kept plan for " + describe(problem) + " is damaged");
  }
  return ConvPlan(problem, ExecutionPlan::from_json(kept["plan"], device), kept["description"]);
}

}  // namespace mrmf::cuda
