// The integrator in double precision with the kinetics' own formulas: slow, plain, and what the fast one is tested
// against. Same equations, same order of operations as NEURON's default: backward Euler for the potential, then the
// gates by the exponential solution at the new potential.
#pragma once

#include <span>

#include "tests/unit/neuron_reference.hpp"

namespace mrmf::neuron {

/// `current` (nA, into the soma) holds one value per step.
Trace reference_trace(const Cell& cell, const Conductances& g, std::span<const double> current, double dt);

}  // namespace mrmf::neuron
