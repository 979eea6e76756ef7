// The backends under test, and small numeric helpers that the kernel and layer tests share.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/cuda/module.hpp"
#include "kernels/random.hpp"

namespace mrmf::test {

using Values = std::vector<float>;

/// MRMF_TEST_CUDA is set: the CUDA module (or its emulated twin, MRMF_CUDA_MODULE) is tested, too.
bool tests_cuda();
/// Set when a CUDA backend is made: main.cpp counts the cases that had one.
bool& used_cuda();
/// The CUDA backend itself: spans are the device's memory. Its plans come in a fixed order and are not timed.
std::unique_ptr<Backend> cuda_device(Precision precision, bool graphs = true);
/// The CUDA backend seen from the host's memory.
std::unique_ptr<Backend> cuda_backend(Precision precision);

/// Every backend under test, the reference first.
std::vector<std::unique_ptr<Backend>> backends();

/// A workspace that no other operation shares, for the threads that there are.
cpu::SharedWorkspace own_workspace();

/// ||a - b|| / ||b|| in double; the plain norm of a when b is zero. NaN when either holds one.
double relative_distance(ConstSpan a, ConstSpan b);

std::vector<float> uniform(Rng& rng, std::size_t count, double low = -1.0, double high = 1.0);

/// A copy of a backend's memory.
inline std::vector<float> on_host(Backend& backend, ConstSpan span) {
  std::vector<float> values(span.size());
  backend.read(span, values);
  return values;
}

/// What stands on both sides of a buffer under test.
inline constexpr float kGuardValue = -7.25e11F;

/// A LossOp as a function: the sum over rows, dy if not empty. The target's channels are those of its shape.
inline double loss_of(Backend& backend, const LossSettings& settings, ConstTensor y, ConstTensor target, float weight,
                      Span dy) {
  float sum = NAN;
  StepContext step;
  step.loss_weight = weight;
  backend.begin(step);
  backend.loss(settings, y.shape, target.shape.channels)->run(step, y, target, dy, {&sum, 1});
  return sum;
}
inline double loss_of(Backend& backend, LossKind kind, ConstTensor y, ConstTensor target, float weight, Span dy) {
  return loss_of(backend, LossSettings::single(kind), y, target, weight, dy);
}

inline Shape flat(Index n, Index c) { return {n, {1, 1, 1}, c, 0}; }
inline Shape line(Index n, Index w, Index c) { return {n, {1, 1, w}, c, 1}; }
inline Shape image(Index n, Index h, Index w, Index c) { return {n, {1, h, w}, c, 2}; }
inline Shape volume(Index n, const Extent& e, Index c) { return {n, e, c, 3}; }

}  // namespace mrmf::test
