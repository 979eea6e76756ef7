// Choice of the way in which cuDNN does each convolution. Its heuristics' proposals are checked, timed on this device
// and kept on disk, all before training starts.
#pragma once

#include <map>
#include <memory>

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

class Device;

class PlanChooser {
 public:
  explicit PlanChooser(Device& device);

  /// The plan for this problem; equal problems share it. Makes room for its workspace. FaultError when no plan gives
  /// the right result. FaultError also when a plan leaves the device unusable; its engine is noted and skipped at the
  /// next start.
  std::shared_ptr<const ConvPlan> choose(const ConvProblem& problem);

 private:
  std::shared_ptr<const ConvPlan> kept(const ConvProblem& problem);
  std::shared_ptr<const ConvPlan> found(const ConvProblem& problem);
  [[noreturn]] void give_up(const ConvProblem& problem, const ConvPlan& plan, const std::string& fault);
  bool save() const;

  Device& device_;
  PlanCache cache_;
  std::map<std::string, std::shared_ptr<const ConvPlan>> plans_;
};

}  // namespace mrmf::cuda
