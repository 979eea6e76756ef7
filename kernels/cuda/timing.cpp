#include "kernels/cuda/timing.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/step.hpp"

namespace mrmf::cuda {
namespace {

/// Marks in a stream and the seconds between them.
class Timing {
 public:
  explicit Timing(int marks) {
    for (int i = 0; i < marks; ++i) marks_.emplace_back(cudaEventDefault);
  }
  void mark(int i, cudaStream_t stream) const { marks_[static_cast<std::size_t>(i)].record(stream); }
  std::vector<double> seconds() const {
    marks_.back().synchronise();
    std::vector<double> times;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      MRMF_CUDA(cudaEventElapsedTime(&milliseconds, marks_[i - 1].get(), marks_[i].get()));
      times.push_back(1e-3 * milliseconds);
    }
    return times;
  }

 private:
  std::vector<Event> marks_;
};

}  // namespace

double run_seconds(cudaStream_t stream, const TimedWork& work, double best) {
  constexpr double launching = 1e-4, long_run = 1e-2;  // after a long run, launching and a warm cache do not matter
  const Timing rough(2);
  rough.mark(0, stream);
  work.run(0);
  rough.mark(1, stream);
  const double once = rough.seconds()[0];
  if (once > long_run || once > 2 * best + launching) return once;

  if (work.before_record) work.before_record();
  const int runs = std::clamp(static_cast<int>(2 * long_run / once), 5, most_timed_runs);
  const Record record = cuda::record(stream, [&] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(runs); ++i) work.run(i);
  });
  // The first launch is not timed: while it runs, the host queues the others, so that the device never waits for it.
  constexpr int launches = 4;
  const Timing timing(launches);
  for (int i = 0; i < launches; ++i) {
    MRMF_CUDA(cudaGraphLaunch(record.get(), stream));
    timing.mark(i, stream);
  }
  std::vector<double> times = timing.seconds();
  std::ranges::sort(times);
  return times[times.size() / 2] / runs;
}

}  // namespace mrmf::cuda
