// The devices that the plans of these tests are for: none is there, each is described (tests/cuda/*.json).
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/cudnn.hpp"
#include "kernels/errors.hpp"

namespace mrmf::cuda {

/// name: "h100" or "a100".
inline DeviceModel described_device(const std::string& name) {
  std::ifstream file(std::string(MRMF_DEVICES) + "/" + name + ".json");
  return DeviceModel::from_json({std::istreambuf_iterator<char>(file), {}});
}

/// All plans of a problem within the limits, in the order in which they would be tried. FaultError when there is none.
inline std::vector<ConvPlan> conv_candidates(const ConvProblem& problem, const DeviceModel& device,
                                             const PlanLimits& limits) {
  ConvCandidates candidates(problem, device, limits);
  std::vector<ConvPlan> plans;
  const auto full = [&] { return static_cast<int>(plans.size()) >= limits.candidates; };
  while (!full()) {
    std::optional<ConvPlan> plan = candidates.next();
    if (!plan) break;
    plans.push_back(std::move(*plan));
  }
  while (!full()) {
    std::optional<ConvPlan> plan = candidates.next_compiled();
    if (!plan) break;
    plans.push_back(std::move(*plan));
  }
  if (plans.empty()) throw FaultError("no plan for " + describe(problem) + ": " + candidates.refusals());
  return plans;
}

}  // namespace mrmf::cuda
