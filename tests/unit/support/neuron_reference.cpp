#include "tests/unit/support/neuron_reference.hpp"

#include <cmath>
#include <cstddef>

#include "src/simulators/neuron/cell.hpp"
#include "src/simulators/neuron/simulate.hpp"

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

namespace {

struct Sums {
  double conductance = 0;  // S/cm2
  double drive = 0;        // conductance times reversal potential, mA/cm2
  double calcium = 0;      // the calcium channels' share of the conductance
};

struct BlockState {
  PerLane<double> conductance{}, m{}, h{};
};

struct CalciumState {
  double inside = kCalciumRest, z = 0;
};

double relax(double x, const Gate& gate, double dt) { return x - std::expm1(-dt / gate.tau) * (gate.steady - x); }

class Reference {
 public:
  Reference(const Cell& cell, const Conductances& g, double dt)
      : cell_(cell),
        g_(g),
        dt_(dt),
        blocks_(channel_blocks(cell)),
        states_(blocks_.size()),
        voltage_(cell.compartments.size(), kRestVoltage),
        calcium_(voltage_.size()),
        sums_(voltage_.size()) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const Compartment& here = cell.compartments[static_cast<std::size_t>(blocks_[b].compartment)];
      states_[b].conductance = block_conductances(g, here.region, blocks_[b].lanes);
      if (here.region == Region::dendrite) states_[b].conductance[kCation] *= ih_factor(here.distance);
      const PerLane<Gates> gates = gates_at(blocks_[b].lanes, kRestVoltage);
      for (std::size_t k = 0; k < kLanes; ++k) states_[b].m[k] = gates[k].m.steady, states_[b].h[k] = gates[k].h.steady;
    }
    for (CalciumState& c : calcium_) c.z = sk_steady(c.inside);
    sum_conductances();
  }

  double voltage(int compartment) const { return voltage_[static_cast<std::size_t>(compartment)]; }

  void step(double current) {
    std::vector<double> calcium_current(voltage_.size());
    for (std::size_t i = 0; i < voltage_.size(); ++i)
      calcium_current[i] = sums_[i].calcium * (voltage_[i] - calcium_reversal(calcium_[i].inside));
    advance_voltage(current);
    for (std::size_t i = 0; i < voltage_.size(); ++i)
      if (cell_.compartments[i].region != Region::dendrite) advance_calcium(i, calcium_current[i]);
    advance_gates();
    sum_conductances();
  }

 private:
  void sum_conductances() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const auto region = cell_.compartments[i].region;
      const double leak = g_.at(region, Channel::pas);
      sums_[i] = {leak, leak * cell_.constants.leak_reversal[static_cast<std::size_t>(region)], 0};
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) add_block(blocks_[b], states_[b]);
  }

  void add_block(const ChannelBlock& block, const BlockState& s) {
    const auto i = static_cast<std::size_t>(block.compartment);
    for (std::size_t k = 0; k < kLanes; ++k) {
      const double g = s.conductance[k] * std::pow(s.m[k], exponent(block.lanes, static_cast<int>(k))) * s.h[k];
      sums_[i].conductance += g;
      sums_[i].drive += g * block.reversal[k];
      if (block.calcium() && (k == kCalciumLow || k == kCalciumHigh)) sums_[i].calcium += g;
    }
    if (!block.calcium()) return;
    const double sk = g_.at(block.lanes, Channel::sk) * calcium_[i].z;
    sums_[i].conductance += sk;
    sums_[i].drive += sk * block.reversal[1] + sums_[i].calcium * calcium_reversal(calcium_[i].inside);
  }

  // Backward Euler: one tridiagonal-like system on the tree, eliminated from the tips to the soma.
  void advance_voltage(double current) {
    const std::size_t n = voltage_.size();
    std::vector<double> diagonal(n), right(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Compartment& c = cell_.compartments[i];
      diagonal[i] += c.area * (1e-3 * kCapacitance / dt_ + sums_[i].conductance) + c.to_parent;
      right[i] += c.area * (sums_[i].drive - sums_[i].conductance * voltage_[i]);
      if (i == 0) continue;
      const auto p = static_cast<std::size_t>(c.parent);
      diagonal[p] += c.to_parent;
      right[i] += c.to_parent * (voltage_[p] - voltage_[i]);
      right[p] -= c.to_parent * (voltage_[p] - voltage_[i]);
    }
    right[0] += 1e-6 * current;  // nA to mA; conductance times mV is mA
    for (std::size_t i = n - 1; i > 0; --i) {
      const auto p = static_cast<std::size_t>(cell_.compartments[i].parent);
      const double factor = cell_.compartments[i].to_parent / diagonal[i];
      diagonal[p] -= factor * cell_.compartments[i].to_parent;
      right[p] += factor * right[i];
    }
    std::vector<double> change(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double from_parent =
          i == 0 ? 0 : cell_.compartments[i].to_parent * change[static_cast<std::size_t>(cell_.compartments[i].parent)];
      change[i] = (right[i] + from_parent) / diagonal[i];
      voltage_[i] += change[i];
    }
  }

  void advance_calcium(std::size_t i, double current) {
    const auto region = static_cast<std::size_t>(cell_.compartments[i].region);
    const double decay = cell_.constants.calcium_decay[region];
    const double gain = calcium_per_current(cell_.constants.calcium_gamma[region]);
    CalciumState& c = calcium_[i];
    c.inside = relax(c.inside, {kCalciumRest - gain * current * decay, decay}, dt_);
    c.z = relax(c.z, {sk_steady(c.inside), kSkTau}, dt_);
  }

  void advance_gates() {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const PerLane<Gates> gates = gates_at(blocks_[b].lanes, voltage(blocks_[b].compartment));
      for (std::size_t k = 0; k < kLanes; ++k) {
        states_[b].m[k] = relax(states_[b].m[k], gates[k].m, dt_);
        states_[b].h[k] = relax(states_[b].h[k], gates[k].h, dt_);
      }
    }
  }

  const Cell& cell_;
  const Conductances& g_;
  double dt_;
  std::vector<ChannelBlock> blocks_;
  std::vector<BlockState> states_;
  std::vector<double> voltage_;
  std::vector<CalciumState> calcium_;
  std::vector<Sums> sums_;
};

}  // namespace

Trace reference_trace(const Cell& cell, const Conductances& g, std::span<const double> current, double dt) {
  Reference reference(cell, g, dt);
  Trace trace{dt, {}};
  trace.voltage.reserve(current.size() * kProbes);
  for (const double i : current) {
    for (const int probe : cell.probes) trace.voltage.push_back(reference.voltage(probe));
    reference.step(i);
  }
  return trace;
}

}  // namespace mrmf::neuron
