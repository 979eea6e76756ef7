// Convolutions as cuDNN plans: what can be asked for, the ways cuDNN offers to do it, and one chosen way.
// Plans can be made for a described device and need no GPU until they run.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn.hpp"
#include "kernels/cuda/device_model.hpp"
#include "kernels/cuda/settings.hpp"
#include "kernels/geometry.hpp"

namespace mrmf::cuda {

enum class ConvPass { forward, backward_data, backward_weights };

/// One convolution. Channels of `geometry` are the padded ones (multiples of 8 for bf16, of 4 otherwise, or cuDNN
/// copies tensors into a large workspace).
struct ConvProblem {
  ConvPass pass = ConvPass::forward;
  ConvGeometry geometry;
  Index rows = 1;
  Precision precision = Precision::fp32;
  bool bias = false;           ///< forward: adds fp32 bias[out_channels]
  bool deterministic = false;  ///< the same bits every time
};

/// "forward 16->32 k3x3x3 s1x1x1 p1x1x1+1x1x1 at 64x64x64, 8 rows, bf16, bias": equal exactly for equal problems.
std::string describe(const ConvProblem& problem);
/// "forward, bf16, bias": problems among which cuDNN's engines have the same numbers.
std::string kind_of(const ConvProblem& problem);

struct PlanLimits {
  std::size_t workspace = std::size_t{64} << 20;  ///< bytes; plans that want more are left out
  int candidates = 20;                            ///< at most so many plans
  int compiled = 6;               ///< of which so many whose kernel is compiled first, which takes about 0.4 s
  std::set<std::string> avoid{};  ///< ConvPlan::engine() of those that are left out
};

/// Device memory, channels-last, aligned to 16 bytes: x (rows, in, in_channels), w (out_channels, kernel, in_channels)
/// and dy (rows, out, out_channels) in the precision's storage type. Those that a pass does not read may be null.
struct ConvPointers {
  const void* x = nullptr;
  const void* w = nullptr;
  const float* bias = nullptr;
  const void* dy = nullptr;
  void* result = nullptr;  ///< y, dx or dw in the storage type. Overwritten
};

/// One way to do one convolution, ready to run.
class ConvPlan {
 public:
  ConvPlan(const ConvProblem& problem, ExecutionPlan plan, std::string description);

  std::size_t workspace() const { return plan_.workspace(); }      ///< bytes of device memory that run() needs
  const std::string& description() const { return description_; }  ///< "engine 11, tensor cores": for tables and logs
  std::string engine() const;                                      ///< "engine 11", whatever its knobs
  std::string json() const;                                        ///< for conv_plan_from_json

  /// Queues the convolution on the handle's stream; no allocation on the device, no waiting.
  void run(cudnnHandle_t handle, const ConvPointers& pointers, void* workspace) const;

 private:
  ConvPass pass_;
  bool bias_;
  ExecutionPlan plan_;
  std::string description_;
};

/// Supported plans in the order of cuDNN's heuristics: mode A, then B, then fallback. FaultError that names the problem
/// and the last reasons when there is none.
std::vector<ConvPlan> conv_candidates(const ConvProblem& problem, const DeviceModel& device, const PlanLimits& limits);

/// A plan that json() wrote down for the same problem, kind of device and cuDNN. FaultError when it is not accepted.
ConvPlan conv_plan_from_json(const ConvProblem& problem, const DeviceModel& device, const std::string& text);

}  // namespace mrmf::cuda
