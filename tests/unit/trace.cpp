#include "tests/unit/neuron_reference.hpp"

#include <cmath>
#include <cstddef>

#include "src/simulators/neuron/cable.hpp"
#include "src/simulators/neuron/stimulus.hpp"

namespace mrmf::neuron {

std::vector<double> spike_times(const Trace& trace, int probe, double threshold) {
  std::vector<double> times;
  for (std::size_t i = 1; i < trace.steps(); ++i) {
    const double before = trace.at(i - 1, probe), after = trace.at(i, probe);
    if (before < threshold && after >= threshold)
      times.push_back((static_cast<double>(i - 1) + (threshold - before) / (after - before)) * trace.dt);
  }
  return times;
}

Trace simulate_trace(const Cell& cell, const Conductances& g, double dt) {
  const int steps = static_cast<int>(std::lround(kDuration / dt));
  const Cable cable(cell, std::make_shared<GateTables>(dt), midpoint_current(stimulus(), dt, steps), 1);
  CableWork work;
  cable.run({&g, 1}, work);
  Trace trace{dt, {}};
  trace.voltage.reserve(work.bins.size());
  for (const Row& row : work.bins) trace.voltage.push_back(static_cast<double>(row.value[0]));
  return trace;
}

}  // namespace mrmf::neuron
