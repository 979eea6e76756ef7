#include "kernels/cuda/conv_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/conv_expected.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/pattern.hpp"
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

}  // namespace

ConvTrial::ConvTrial(Device& device, const ConvProblem& problem) : device_(device), problem_(problem) {
  const ConvSizes sizes(problem);
  const auto element = static_cast<std::size_t>(device.storage().bytes());
  const auto bytes = [&](Index count) { return static_cast<std::size_t>(count) * element; };
  a_ = DeviceBuffer(bytes(sizes.first));
  b_ = DeviceBuffer(bytes(sizes.second));
  result_ = DeviceBuffer(bytes(sizes.result));
  fill_pattern(device.work(), first_seed, sizes.first, a_.get());
  fill_pattern(device.work(), second_seed, sizes.second, b_.get());
  if (!problem.bias) return;
  bias_ = DeviceBuffer(static_cast<std::size_t>(problem.geometry.out_channels) * sizeof(float));
  fill_pattern({device.stream(), Storage::of(false)}, bias_seed, problem.geometry.out_channels, bias_.get());
}

void ConvTrial::run(const ConvPlan& plan) {
  ConvPointers pointers;
  pointers.result = result_.get();
  pointers.bias = bias_.get<float>();
  switch (problem_.pass) {
    case ConvPass::forward: pointers.x = a_.get(), pointers.w = b_.get(); break;
    case ConvPass::backward_data: pointers.dy = a_.get(), pointers.w = b_.get(); break;
    case ConvPass::backward_weights: pointers.x = a_.get(), pointers.dy = b_.get(); break;
  }
  if (plan.workspace() > workspace_.bytes()) {
    workspace_ = {};
    workspace_ = DeviceBuffer(plan.workspace());
  }
  plan.run(device_.cudnn(), pointers, workspace_.get());
}

double ConvTrial::seconds(const ConvPlan& plan) {
  constexpr int repeats = 5;
  const Event begin(cudaEventDefault), end(cudaEventDefault);
  run(plan);
  std::vector<float> times;
  for (int i = 0; i < repeats; ++i) {
    begin.record(device_.stream());
    run(plan);
    end.record(device_.stream());
    end.synchronise();
    times.push_back(0);
    MRMF_CUDA(cudaEventElapsedTime(&times.back(), begin.get(), end.get()));
  }
  std::ranges::nth_element(times, times.begin() + repeats / 2);
  return 1e-3 * times[repeats / 2];
}

// An element of the weights' gradient is a sum over the whole batch, so fewer of those.
void ConvTrial::choose_samples() {
  const bool weights = problem_.pass == ConvPass::backward_weights;
  for (const Index i : sampled(ConvSizes(problem_).result, weights ? 3 : 40))
    samples_.push_back({i, expected_element(problem_, i)});
}

std::optional<std::string> ConvTrial::mistake(const ConvPlan& plan) {
  // NaN first, so that what a plan leaves out is seen.
  MRMF_CUDA(cudaMemsetAsync(result_.get(), 0xFF, result_.bytes(), device_.stream()));
  run(plan);
  device_.synchronise();
  const bool narrow = device_.storage().bf16;
  if (samples_.empty()) choose_samples();
  for (const auto& [i, want] : samples_) {
    float got = 0;
    if (narrow) {
      Bf16 stored{};
      MRMF_CUDA(cudaMemcpy(&stored, result_.get<Bf16>() + i, sizeof(stored), cudaMemcpyDeviceToHost));
      got = to_float(stored);
    } else {
      MRMF_CUDA(cudaMemcpy(&got, result_.get<float>() + i, sizeof(got), cudaMemcpyDeviceToHost));
    }
    // The factors are exact in every precision, so what is left is the rounding of the result (bf16: 2^-9) and, far
    // from home, of float32 sums.
    const double tolerance = std::abs(want) * (narrow ? 0x1p-8 : 1e-4) + 1e-2;
    if (!(std::abs(got - want) <= tolerance)) return fmt::format("element {} is {} and should be {}", i, got, want);
  }
  return std::nullopt;
}

}  // namespace mrmf::cuda
