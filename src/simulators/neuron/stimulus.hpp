// The current that every cell receives at its soma. It is the same for all samples, so that responses distinguish
// conductances. It replaces the data set's chaotic stimulus and is built from its published description: nothing
// outside 20-140 ms; inside, a slow oscillation that grows until a spike of about 2 ms resets it, ten times.
#pragma once

#include <span>
#include <vector>

namespace mrmf::neuron {

inline constexpr double kDuration = 200;        ///< ms
inline constexpr double kStimulusStep = 0.025;  ///< ms between the values of the trace
inline constexpr int kStimulusValues = 8000;

/// The current in nA at 0, 0.025, ... ms.
std::vector<double> stimulus();

/// The linearly interpolated trace at the middle of each of `steps` time steps of `dt` ms, where a backward Euler step
/// takes its current.
std::vector<double> midpoint_current(std::span<const double> trace, double dt, int steps);

}  // namespace mrmf::neuron
