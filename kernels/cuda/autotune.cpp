#include "kernels/cuda/conv_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/conv_expected.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/pattern.hpp"
#include "kernels/cuda/recorder.hpp"
#include "kernels/cuda/storage.cuh"

namespace mrmf::cuda {
namespace {

// Spread over the result: first, last, and places between that are not at round distances.
std::vector<Index> sampled(Index count, int samples) {
  std::vector<Index> at{0, count - 1};
  for (int i = 1; i < samples - 1; ++i)
    at.push_back(static_cast<Index>(static_cast<double>(count - 1) * std::fmod(0.6180339887 * i, 1.0)));
  return at;
}

constexpr int most_runs = 20;

/// Marks in a stream, and the seconds between them.
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

ConvTrial::ConvTrial(Device& device, const ConvProblem& problem) : device_(device), problem_(problem) {
  buffers_.push_back(make_buffers());
  if (problem.bias) {
    bias_ = DeviceBuffer(static_cast<std::size_t>(problem.geometry.out_channels) * sizeof(float));
    fill_pattern({device.stream(), Storage::of(false)}, bias_seed, problem.geometry.out_channels, bias_.get());
  }
  device.synchronise();  // so that a fault from before is not taken for a plan's
}

ConvTrial::Buffers ConvTrial::make_buffers() const {
  const ConvSizes sizes(problem_);
  const auto element = static_cast<std::size_t>(device_.storage().bytes());
  const auto bytes = [&](Index count) { return static_cast<std::size_t>(count) * element; };
  Buffers made{DeviceBuffer(bytes(sizes.first)), DeviceBuffer(bytes(sizes.second)), DeviceBuffer(bytes(sizes.result))};
  fill_pattern(device_.work(), first_seed, sizes.first, made.a.get());
  fill_pattern(device_.work(), second_seed, sizes.second, made.b.get());
  return made;
}

// Enough that going round them, twice the device's cache is read and written before any comes again.
void ConvTrial::add_copies() {
  if (buffers_.size() > 1) return;
  int cache = 0;
  MRMF_CUDA(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device_.settings().device));
  const std::size_t each = buffers_[0].a.bytes() + buffers_[0].b.bytes() + buffers_[0].result.bytes();
  const std::size_t wanted = std::min<std::size_t>(most_runs, 2 * static_cast<std::size_t>(cache) / each + 1);
  while (buffers_.size() < wanted && device_.free_memory() > 8 * each) buffers_.push_back(make_buffers());
}

void ConvTrial::run(const ConvPlan& plan, const Buffers& on) {
  ConvPointers pointers;
  pointers.result = on.result.get();
  pointers.bias = bias_.get<float>();
  switch (problem_.pass) {
    case ConvPass::forward: pointers.x = on.a.get(), pointers.w = on.b.get(); break;
    case ConvPass::backward_data: pointers.dy = on.a.get(), pointers.w = on.b.get(); break;
    case ConvPass::backward_weights: pointers.x = on.a.get(), pointers.dy = on.b.get(); break;
  }
  if (plan.workspace() > workspace_.bytes()) {
    workspace_ = {};
    workspace_ = DeviceBuffer(plan.workspace());
  }
  plan.run(device_.cudnn(), pointers, workspace_.get());
}

double ConvTrial::seconds(const ConvPlan& plan, double best) {
  constexpr double launching = 1e-4, long_run = 1e-2;  // beside the second, the first and a warm cache are nothing
  const Timing rough(2);
  rough.mark(0, device_.stream());
  run(plan, buffers_[0]);
  rough.mark(1, device_.stream());
  const double once = rough.seconds()[0];
  if (once > long_run || once > 2 * best + launching) return once;

  add_copies();
  const int runs = std::clamp(static_cast<int>(2 * long_run / once), 5, most_runs);
  const Record record = cuda::record(device_.stream(), [&] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(runs); ++i) run(plan, buffers_[i % buffers_.size()]);
  });
  // The first launch is not timed: while it runs, the host queues the others, so that the device never waits for it.
  constexpr int launches = 4;
  const Timing timing(launches);
  for (int i = 0; i < launches; ++i) {
    MRMF_CUDA(cudaGraphLaunch(record.get(), device_.stream()));
    timing.mark(i, device_.stream());
  }
  std::vector<double> times = timing.seconds();
  std::ranges::sort(times);
  return times[times.size() / 2] / runs;
}

// An element of the weights' gradient is a sum over the whole batch, so fewer of those.
void ConvTrial::choose_samples() {
  const bool weights = problem_.pass == ConvPass::backward_weights;
  for (const Index i : sampled(ConvSizes(problem_).result, weights ? 3 : 40))
    samples_.push_back({i, expected_element(problem_, i)});
}

std::optional<std::string> ConvTrial::mistake(const ConvPlan& plan) {
  const DeviceBuffer& result = buffers_[0].result;
  // NaN first, so that what a plan leaves out is seen.
  MRMF_CUDA(cudaMemsetAsync(result.get(), 0xFF, result.bytes(), device_.stream()));
  run(plan, buffers_[0]);
  device_.synchronise();
  const bool narrow = device_.storage().bf16;
  if (samples_.empty()) choose_samples();
  for (const auto& [i, want] : samples_) {
    float got = 0;
    if (narrow) {
      Bf16 stored{};
      MRMF_CUDA(cudaMemcpy(&stored, result.get<Bf16>() + i, sizeof(stored), cudaMemcpyDeviceToHost));
      got = to_float(stored);
    } else {
      MRMF_CUDA(cudaMemcpy(&got, result.get<float>() + i, sizeof(got), cudaMemcpyDeviceToHost));
    }
    // The factors are exact in every precision, so what is left is the rounding of the result (bf16: 2^-9) and, far
    // from home, of float32 sums.
    const double tolerance = std::abs(want) * (narrow ? 0x1p-8 : 1e-4) + 1e-2;
    if (!(std::abs(got - want) <= tolerance)) return fmt::format("element {} is {} and should be {}", i, got, want);
  }
  return std::nullopt;
}

}  // namespace mrmf::cuda
