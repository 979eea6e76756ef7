// A convolution plan tried in memory of its own: is it right, and how fast is it? And how work on the device is timed.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device.hpp"

namespace mrmf::cuda {

/// What a trial says of a plan.
struct Verdict {
  std::string mistake;  ///< empty: it is right
  double seconds = 0;   ///< seconds of one run, where it was timed
};

/// What a trial says; of one in which a call fails, that this is the mistake. The only place where a failed call
/// becomes a verdict: an engine or algorithm that fails must not keep the others from their turn.
Verdict attempt(const std::function<Verdict()>& trial);

/// A convolution problem in its own memory. Times its plans, and checks their results before they are trusted: cuDNN
/// releases have computed large 3-D convolutions in bf16 wrongly (pytorch issue 163539).
class ConvTrial {
 public:
  ConvTrial(Device& device, const ConvProblem& problem);

  /// Runs the plan on known values, call by call and as a CUDA graph, and compares elements all over the result with
  /// sums in double on the host. Times it then if `timed`, but only roughly when it takes more than twice `best`
  /// seconds. A call that fails is a mistake, too.
  Verdict judge(const ConvPlan& plan, bool timed, double best);

 private:
  /// A pass's two inputs and its result.
  struct Buffers {
    DeviceBuffer a, b, result;
  };
  struct Sample {
    Index at = 0;
    double expected = 0;
  };
  Buffers make_buffers() const;
  void add_copies();
  void run(const ConvPlan& plan, const Buffers& on);
  void choose_samples();
  std::string mistake(const ConvPlan& plan);
  float result_element(Index i) const;

  Device& device_;
  ConvProblem problem_;
  std::vector<Sample> samples_;   // samples of the result
  std::vector<Buffers> buffers_;  // several when one would stay in the cache
  DeviceBuffer bias_, workspace_;
};

// How long queued work takes on the device, measured as in a training step.

/// Work that is timed.
struct TimedWork {
  std::function<void(std::size_t i)> run;  ///< queues one run, number `i`
  std::function<void()> before_capture{};  ///< called once before several runs are captured; may be empty
};

/// Seconds of one run. Launches up to twenty runs as one CUDA graph, which costs the host nothing. A rough time from a
/// single run when that is long, or takes more than twice `best` seconds. FaultError when a call fails.
double run_seconds(cudaStream_t stream, const TimedWork& work, double best);

/// Most runs in one graph.
inline constexpr int most_timed_runs = 20;

}  // namespace mrmf::cuda
