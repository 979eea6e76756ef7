// Choice of the way in which cuDNN does each convolution. Its heuristics' proposals are checked, timed on this device
// and kept on disk, all before training starts.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

class Device;

class PlanChooser {
 public:
  explicit PlanChooser(Device& device);

  /// A plan, or why there is none.
  struct Choice {
    std::shared_ptr<const ConvPlan> plan;
    std::string reason;
  };
  /// The plan for this problem; equal problems share it. Makes room for its workspace. Of a forward pass with a bias it
  /// may be one that leaves the bias to be added (ConvPlan::adds_bias). FaultError when a plan leaves the device
  /// unusable; its engine is noted and skipped at the next start. An engine that ends the process is skipped, too.
  Choice find(const ConvProblem& problem);
  /// The plan of find(); FaultError when no plan gives the right result.
  std::shared_ptr<const ConvPlan> choose(const ConvProblem& problem);

 private:
  std::shared_ptr<const ConvPlan> kept(const ConvProblem& problem);
  std::shared_ptr<const ConvPlan> found(const ConvProblem& problem, std::string& reason);
  PlanLimits limits_of(const ConvProblem& problem);
  void keep(const ConvProblem& problem, const ConvPlan& plan, double seconds);
  [[noreturn]] void give_up(const ConvProblem& problem, const ConvPlan& plan, const std::string& fault);
  bool save() const;

  Device& device_;
  PlanCache cache_;
  TrialNote note_;
  std::map<std::string, std::shared_ptr<const ConvPlan>> plans_;
};

}  // namespace mrmf::cuda
