// The current that every cell receives at its soma: the same for all samples, so that the response tells conductances
// apart. A stand-in built from the published description of the data set's chaotic stimulus: nothing outside
// 20-140 ms; inside a slow oscillation that grows until a spike of about 2 ms resets it, ten times.
#pragma once

#include <span>
#include <vector>

namespace mrmf::neuron {

inline constexpr double kDuration = 200;        ///< ms
inline constexpr double kStimulusStep = 0.025;  ///< ms between the values of the trace
inline constexpr int kStimulusValues = 8000;

/// nA at 0, 0.025, ... ms.
std::vector<double> stimulus();

/// The trace, interpolated linearly, at the middle of each of `steps` time steps of `dt` ms: where a backward Euler
/// step takes its current.
std::vector<double> midpoint_current(std::span<const double> trace, double dt, int steps);

}  // namespace mrmf::neuron
