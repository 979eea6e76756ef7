// The engines that may do a convolution, in the order in which cuDNN recommends them, before anything is compiled.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

/// Walks through heuristic modes A, B and fallback. Leaves out what the problem's precision or determinism forbids,
/// what wants more workspace than allowed, and repetitions.
class ConvProposals {
 public:
  /// Borrows the problem and the device.
  ConvProposals(const ConvProblem& problem, const DeviceModel& device, std::size_t workspace);

  std::optional<EngineConfig> next();  ///< none at the end

  int seen() const { return seen_; }  ///< proposals so far, with those left out
  const std::string& last_refusal() const {
    return last_refusal_;
  }  ///< "engine 25, nondeterministic: ..."; empty if none
  void refuse(const EngineConfig& config, const std::string& reason);

 private:
  bool refill();
  std::string objection(const EngineConfig& config);

  const ConvProblem& problem_;
  const DeviceModel& device_;
  std::size_t workspace_;
  Descriptor graph_;
  std::size_t mode_ = 0;  ///< how many modes were asked
  std::vector<EngineConfig> pending_;
  std::size_t position_ = 0;  ///< in pending_
  std::set<std::pair<std::int64_t, std::map<int, std::int64_t>>> known_;
  int seen_ = 0;
  std::string last_refusal_;
};

}  // namespace mrmf::cuda
