// The integrators against analytic solutions, a finer step, and each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "src/simulators/neuron/simulate.hpp"
#include "tests/unit/support/neuron_reference.hpp"

using namespace mrmf;
using namespace mrmf::neuron;
using doctest::Approx;

namespace {

constexpr double kStep = 0.025;  // ms
constexpr int kTraceSteps = 8000;
constexpr std::uint64_t kSeed = 11;

Conductances drawn(const Cell& cell, Index number, Index sample) {
  return scaled(cell.base, draw_exponents(kSeed, {static_cast<int>(number), sample}));
}

// A cell with leak alone.
Conductances passive(double leak) {
  Conductances g;
  for (const Region r : {Region::soma, Region::axon, Region::dendrite}) g.at(r, Channel::pas) = leak;
  return g;
}

Cell leaky_cell(std::vector<Section> sections) {
  Cell cell;
  cell.sections = std::move(sections);
  cell.compartments = compartments_of(cell.sections);
  cell.constants = {{-65, -65, -65}, {100, 100, 0}, {0.001, 0.001, 0}};
  return cell;
}

// Every compartment's potential after 40 membrane time constants (1 ms) of a constant current (nA), by the fast and by
// the double integrator.
constexpr int kSettled = 1600;  // steps
struct Steady {
  std::vector<double> fast, exact;
};
Steady steady_state(Cell cell, const Conductances& g, double current) {
  const auto tables = std::make_shared<GateTables>(kStep);
  const std::vector<double> constant(kSettled, current);
  const int n = static_cast<int>(cell.compartments.size());
  Steady steady;
  CableWork work;
  for (int first = 0; first < n; first += kProbes) {
    for (int p = 0; p < kProbes; ++p) cell.probes[static_cast<std::size_t>(p)] = std::min(first + p, n - 1);
    const Cable cable(cell, tables, constant, 1);
    cable.run({&g, 1}, work);
    const Trace trace = reference_trace(cell, g, constant, kStep);
    for (int p = 0; p < kProbes && first + p < n; ++p) {
      const Row& last = work.bins[work.bins.size() - kProbes + static_cast<std::size_t>(p)];
      steady.fast.push_back(static_cast<double>(last.value[0]));
      steady.exact.push_back(trace.at(kSettled - 1, p));
    }
  }
  return steady;
}

bool near_spike(double t, const std::vector<double>& spikes) {
  return std::any_of(spikes.begin(), spikes.end(), [t](double s) { return std::abs(t - s) < 1; });
}

}  // namespace

TEST_CASE("neuron integrator: a sealed passive cable has its analytic steady state") {
  constexpr int kParts = 51;
  constexpr double kLength = 510, kDiameter = 2, kLeak = 1e-3, kCurrent = 0.05;  // um, um, S/cm2, nA
  Section section{"cable", Region::dendrite, -1, kLength, std::vector<double>(kParts, kDiameter), 0};
  const Cell cell = leaky_cell({section});
  const Steady v = steady_state(cell, passive(kLeak), kCurrent);

  const double d = kDiameter * 1e-4;                                                                        // cm
  const double lambda = std::sqrt(d / (4 * kAxialResistivity * kLeak));                                     // cm
  const double infinite = 2 / std::numbers::pi * std::sqrt(kAxialResistivity / kLeak) * std::pow(d, -1.5);  // ohm
  const double length = kLength * 1e-4, part = length / kParts;
  for (int i = 1; i < kParts; ++i) {
    const double x = (i + 0.5) * part;
    const double rise = kCurrent * 1e-6 * infinite * std::cosh((length - x) / lambda) / std::sinh(length / lambda);
    // Current enters in the middle of the first compartment instead of at its end, (part / 2 lambda)^2 / 2 = 2e-4
    // relative, and space is discretised with an error of the same order.
    CHECK(v.exact[static_cast<std::size_t>(i)] == Approx(-65 + rise).epsilon(1e-4));
    CHECK(v.fast[static_cast<std::size_t>(i)] - v.exact[static_cast<std::size_t>(i)] == Approx(0).epsilon(1e-3));
    CHECK(rise > 0.1);
  }
}

TEST_CASE("neuron integrator: in the steady state what enters the soma leaks out of the whole tree") {
  Cell cell = make_cell(0);
  cell = leaky_cell(cell.sections);
  constexpr double kLeak = 1e-3, kCurrent = 0.3;
  const Steady v = steady_state(cell, passive(kLeak), kCurrent);
  double fast = 0, exact = 0;  // mA
  for (std::size_t i = 0; i < cell.compartments.size(); ++i) {
    fast += kLeak * cell.compartments[i].area * (v.fast[i] + 65);
    exact += kLeak * cell.compartments[i].area * (v.exact[i] + 65);
  }
  CHECK(exact == Approx(kCurrent * 1e-6).epsilon(1e-6).scale(0));
  CHECK(fast == Approx(kCurrent * 1e-6).epsilon(2e-2).scale(0));  // float
}

TEST_CASE("neuron integrator: without current a leaky cell stays where it is") {
  const Cell cell = leaky_cell(make_cell(1).sections);
  const Conductances g = passive(1e-4);
  const Trace trace = reference_trace(cell, g, std::vector<double>(100, 0.0), kStep);
  for (const double v : trace.voltage) CHECK(v == -65);
}

TEST_CASE("neuron integrator: float and tables against double and formulas, same step") {
  const std::vector<double> current = midpoint_current(stimulus(), kStep, kTraceSteps);
  for (const int number : {1, 2, 5, 7}) {
    const Cell cell = make_cell(number);
    const Conductances g = drawn(cell, number, 1);
    const Trace fast = simulate_trace(cell, g, kStep), exact = reference_trace(cell, g, current, kStep);
    INFO(cell.name);
    for (int p = 0; p < kProbes; ++p) {
      const std::vector<double> a = spike_times(fast, p, -10), b = spike_times(exact, p, -10);
      REQUIRE(a.size() == b.size());
      // Rounding of 1e-7 and tables of 1e-5 move a spike by microseconds; near threshold that grows tenfold.
      for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 0.005);
      double away = 0;
      for (std::size_t i = 0; i < fast.steps(); ++i)
        if (!near_spike(static_cast<double>(i) * kStep, b))
          away = std::max(away, std::abs(fast.at(i, p) - exact.at(i, p)));
      CHECK(away < 0.05);
    }
  }
}

TEST_CASE("neuron integrator: against a step 16 times finer") {
  int equal = 0, samples = 0;
  for (int number = 0; number < kElectricalTypes; ++number) {
    const Cell cell = make_cell(number);
    const Conductances g = drawn(cell, number, 0);
    const Trace coarse = simulate_trace(cell, g, kStep), fine = simulate_trace(cell, g, kStep / 16);
    const std::vector<double> a = spike_times(coarse, 0, -10), b = spike_times(fine, 0, -10);
    ++samples;
    if (a.size() != b.size()) continue;  // a spike near threshold, or a cell that fires by itself and drifts
    ++equal;
    INFO(cell.name);
    // Backward Euler is of first order: a spike's upstroke comes late by a few steps' worth.
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 0.15);
    if (a.empty() || a[0] < 20) continue;
    double quiet = 0;
    for (std::size_t i = 0; i < 800; ++i) quiet = std::max(quiet, std::abs(coarse.at(i, 0) - fine.at(i * 16, 0)));
    CHECK(quiet < 0.1);  // mV, on the way to the resting potential
  }
  CHECK(equal >= samples - 2);
}

TEST_CASE("neuron integrator: halving the step halves the error") {
  // In double precision, on the way to the resting potential: below 0.01 mV float's rounding would show.
  const Cell cell = make_cell(2);
  const auto rest = [&](int finer) {
    const std::vector<double> nothing(static_cast<std::size_t>(400 * finer), 0.0);
    return reference_trace(cell, cell.base, nothing, kStep / finer);
  };
  const Trace a = rest(1), b = rest(2), exact = rest(16);
  double error_a = 0, error_b = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    error_a = std::max(error_a, std::abs(a.at(i, 0) - exact.at(16 * i, 0)));
    error_b = std::max(error_b, std::abs(b.at(2 * i, 0) - exact.at(16 * i, 0)));
  }
  CHECK(error_a > 1e-4);
  CHECK(error_a < 0.1);
  CHECK(error_a / error_b == Approx((1 - 1.0 / 16) / (0.5 - 1.0 / 16)).epsilon(0.05));  // first order
}

TEST_CASE("neuron integrator: a sample's bits depend neither on its batch nor on the instruction set") {
  const Cell cell = make_cell(7);
  const auto tables = std::make_shared<GateTables>(kStep);
  const std::vector<double> current = midpoint_current(stimulus(), kStep, kTraceSteps);
  std::vector<Conductances> samples;
  for (Index s = 0; s < 5; ++s) samples.push_back(drawn(cell, 7, s));
  const Cable best(cell, tables, current, kStepsPerBin);
  const Cable generic(cell, tables, current, kStepsPerBin, InstructionSet::generic);
  CableWork together, alone, plain;
  best.run(samples, together);
  generic.run(samples, plain);
  CHECK(std::memcmp(together.bins.data(), plain.bins.data(), plain.bins.size() * sizeof(Row)) == 0);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    best.run({&samples[s], 1}, alone);
    for (std::size_t i = 0; i < alone.bins.size(); ++i) REQUIRE(alone.bins[i].value[0] == together.bins[i].value[s]);
    CHECK(alone.peak.value[0] == together.peak.value[s]);
  }
}
