// A convolution problem on memory of its own: for timing its plans, and for checking their results before they are
// trusted (cuDNN releases have computed large 3-D convolutions in bf16 wrongly, pytorch issue 163539).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device_buffer.hpp"

namespace mrmf::cuda {

class Device;

class ConvTrial {
 public:
  ConvTrial(Device& device, const ConvProblem& problem);

  /// Median seconds of a few runs. FaultError when the plan fails.
  double seconds(const ConvPlan& plan);
  /// Runs the plan on known values and compares elements all over the result with sums in double on the host. What is
  /// wrong, or nothing.
  std::optional<std::string> mistake(const ConvPlan& plan);

 private:
  void run(const ConvPlan& plan);
  void choose_samples();

  Device& device_;
  ConvProblem problem_;
  struct Sample {
    Index at = 0;
    double expected = 0;
  };
  std::vector<Sample> samples_;                     // of the result
  DeviceBuffer a_, b_, bias_, result_, workspace_;  // a, b: the two inputs of the pass
};

}  // namespace mrmf::cuda
