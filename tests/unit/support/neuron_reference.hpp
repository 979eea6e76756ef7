// One sample on its own, at every time step, by the fast integrator and by a plain one in double precision: for tests
// and for the comparison with other simulators.
#pragma once

#include <span>
#include <vector>

#include "src/simulators/neuron/cell.hpp"

namespace mrmf::neuron {

/// Potentials of the probes (mV) at 0, dt, 2 dt, ..., one row of kProbes per step.
struct Trace {
  double dt = 0;  ///< ms
  std::vector<double> voltage;
  std::size_t steps() const { return voltage.size() / kProbes; }
  double at(std::size_t step, int probe) const { return voltage[step * kProbes + static_cast<std::size_t>(probe)]; }
};

/// Times (ms) at which a probe crosses `threshold` upwards, interpolated linearly between steps.
std::vector<double> spike_times(const Trace& trace, int probe, double threshold);

/// What the data sets are made of, before binning and normalisation: the fast integrator under the stimulus.
/// kDuration is a multiple of dt (ms).
Trace simulate_trace(const Cell& cell, const Conductances& g, double dt);

/// The integrator in double precision with the kinetics' own formulas: slow, plain, and what the fast one is tested
/// against. Same equations, same order of operations as NEURON's default: backward Euler for the potential, then the
/// gates by the exponential solution at the new potential.
/// `current` (nA, into the soma) holds one value per step.
Trace reference_trace(const Cell& cell, const Conductances& g, std::span<const double> current, double dt);

}  // namespace mrmf::neuron
