// A convolution plan tried in memory of its own: is it right, and how fast is it?
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device.hpp"

// The engine under trial, noted on disk: a crash inside cuDNN ends the process without an error that could be caught.

namespace mrmf::cuda {

/// An engine and the kind of problem that it was tried for, as PlanCache::key has it.
struct EngineOfKind {
  std::string kind, engine;
};

/// A note beside the plans' file ("plans.json.trying-HOST-PID"), there as long as a trial lasts. Each process has its
/// own, as several ranks and jobs may keep plans in one file. It is a symbolic link that leads nowhere, whose target is
/// the text: there whole or not at all, and without a write that would have to be synced, since trials are many.
class TrialNote {
 public:
  /// Notes nothing where `plans` is empty; and where a note cannot be made, which is no reason to end a run.
  explicit TrialNote(const std::filesystem::path& plans);
  ~TrialNote() { strike_out(); }
  TrialNote(const TrialNote&) = delete;
  TrialNote& operator=(const TrialNote&) = delete;

  void trying(const EngineOfKind& tried);
  void strike_out();

 private:
  std::filesystem::path file_;  // empty: nothing is noted
  bool noted_ = false;
};

/// What processes left that ended within a trial: those of this host that are gone, and those of others whose note is
/// older than ten minutes, which no trial takes. Removes their notes.
std::vector<EngineOfKind> take_left_notes(const std::filesystem::path& plans);

/// What a trial says of a plan.
struct Verdict {
  std::string mistake;  ///< empty: it is right
  double seconds = 0;   ///< seconds of one run, where it was timed
};

/// A convolution problem in its own memory. Times its plans, and checks their results before they are trusted: cuDNN
/// releases have computed large 3-D convolutions in bf16 wrongly (pytorch issue 163539).
class ConvTrial {
 public:
  ConvTrial(Device& device, const ConvProblem& problem);

  /// Runs the plan on known values, call by call and as a record, and compares elements all over the result with sums
  /// in double on the host. Times it then if `timed`, but only roughly when it takes more than twice `best` seconds. A
  /// call that fails is a mistake, too.
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
  std::function<void()> before_record{};   ///< called once before several runs are recorded; may be empty
};

/// Seconds of one run. Launches up to twenty runs as one record, which costs the host nothing. A rough time from a
/// single run when that is long, or takes more than twice `best` seconds. FaultError when a call fails.
double run_seconds(cudaStream_t stream, const TimedWork& work, double best);

/// Most runs in one record.
inline constexpr int most_timed_runs = 20;

}  // namespace mrmf::cuda
