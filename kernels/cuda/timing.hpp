// How long queued work takes on the device, measured as in a training step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace mrmf::cuda {

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
