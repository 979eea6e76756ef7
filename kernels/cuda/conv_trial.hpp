// A convolution problem on memory of its own: for timing its plans, and for checking their results before they are
// trusted (cuDNN releases have computed large 3-D convolutions in bf16 wrongly, pytorch issue 163539).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

class Device;

class ConvTrial {
 public:
  ConvTrial(Device& device, const ConvProblem& problem);

  /// Seconds of one run as a training step would take: some twenty runs in one record, which costs the host nothing,
  /// each on memory that the device's cache no longer holds. Roughly where one run alone shows that it takes more than
  /// twice `best` seconds. FaultError when the plan fails.
  double seconds(const ConvPlan& plan, double best);
  /// Runs the plan on known values and compares elements all over the result with sums in double on the host. What is
  /// wrong, or nothing.
  std::optional<std::string> mistake(const ConvPlan& plan);

 private:
  /// A pass's two inputs and its result.
  struct Buffers {
    DeviceBuffer a, b, result;
  };
  Buffers make_buffers() const;
  void add_copies();
  void run(const ConvPlan& plan, const Buffers& on);
  void choose_samples();

  Device& device_;
  ConvProblem problem_;
  struct Sample {
    Index at = 0;
    double expected = 0;
  };
  std::vector<Sample> samples_;   // of the result
  std::vector<Buffers> buffers_;  // more than one where all of it would stay in the cache
  DeviceBuffer bias_, workspace_;
};

}  // namespace mrmf::cuda
