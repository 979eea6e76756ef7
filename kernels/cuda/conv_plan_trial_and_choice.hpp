// The way in which cuDNN does each convolution: a plan tried in memory of its own (is it right, and how fast is it?),
// and the choice among its heuristics' proposals, kept on disk, all before training starts. And how work on the device
// is timed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device_and_step.hpp"

namespace mrmf::cuda {

// A convolution plan tried in memory of its own: is it right, and how fast is it? And how work on the device is timed.

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

// Choice of the way in which cuDNN does each convolution. Its heuristics' proposals are checked, timed on this device
// and kept on disk, all before training starts.

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
