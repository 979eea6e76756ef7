// The neuron simulator's parts: kinetics, labels, morphology, stimulus.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/simulators/neuron/cell.hpp"
#include "src/simulators/neuron/simulate.hpp"

using namespace mrmf::neuron;
using doctest::Approx;

TEST_CASE("neuron kinetics: gates at points where the formulas can be evaluated by hand") {
  // At its half-activation a sigmoid is 1/2; the linoid's limit at 0 is a k.
  CHECK(linoid(0.182, 0, 6) == Approx(1.092));
  CHECK(linoid(0.182, 1e-7, 6) == Approx(linoid(0.182, 1e-4, 6)).epsilon(1e-4));
  CHECK(potassium_fast(18.7).m.steady == Approx(0.5));
  CHECK(potassium_fast(-46.56).m.tau == Approx(2));
  CHECK(sodium_persistent(-52.6).m.steady == Approx(0.5));
  CHECK(potassium_transient(-10).m.steady == Approx(0.5));
  CHECK(potassium_transient(-76).h.steady == Approx(0.5));
  CHECK(potassium_persistent(-11).m.steady == Approx(0.5));
  CHECK(potassium_muscarinic(-35).m.steady == Approx(0.5));
  CHECK(potassium_muscarinic(-35).m.tau == Approx(1 / 0.0066 / std::pow(2.3, 1.3)));
  CHECK(calcium_low(-40).m.steady == Approx(0.5));
  CHECK(calcium_low(-90).h.steady == Approx(0.5));
  CHECK(potassium_delay(-43).m.steady == Approx(0.5));
  CHECK(potassium_delay(-67).h.tau == Approx(1500));
  CHECK(sk_steady(kSkHalf) == Approx(0.5));
  CHECK(cation_h(-154.9).m.steady == Approx(0.00643 * 11.9 / (0.00643 * 11.9 + 0.193 * std::exp(-154.9 / 33.1))));
  // Soma and dendrites: the axon's sodium channel shifted by 6 mV.
  CHECK(sodium_transient(-32, 6).m.steady == Approx(sodium_transient(-38, 0).m.steady));
  // The two branches of this time constant meet.
  CHECK(potassium_persistent(-60 - 1e-9).m.tau == Approx(potassium_persistent(-60 + 1e-9).m.tau).epsilon(1e-3));
  // Nernst potential of calcium at rest: R T / 2 F ln(2 / 1e-4) = 131 mV.
  CHECK(calcium_reversal(kCalciumRest) == Approx(131.06).epsilon(1e-4));
}

TEST_CASE("neuron kinetics: every gate stays in [0, 1] with a positive time constant") {
  for (const Region lanes : {Region::soma, Region::axon, Region::dendrite}) {
    for (double v = -250; v <= 250; v += 0.7) {
      for (const Gates& gates : gates_at(lanes, v)) {
        for (const Gate& gate : {gates.m, gates.h}) {
          CHECK(gate.steady >= 0);
          CHECK(gate.steady <= 1);
          CHECK(gate.tau > 0);
        }
      }
    }
  }
}

TEST_CASE("neuron kinetics: between its rows the gate table agrees with the formulas") {
  constexpr double dt = 0.025;
  for (const Region lanes : {Region::soma, Region::axon, Region::dendrite}) {
    const GateTable table(lanes, dt);
    double worst = 0;
    for (double v = -120.03; v < 60; v += 0.37) {
      const double x = (v - static_cast<double>(kTableLowest)) * static_cast<double>(kTablePerMillivolt);
      const auto i = static_cast<std::size_t>(x);
      const double w = x - static_cast<double>(i);
      const PerLane<Gates> exact = gates_at(lanes, v);
      for (std::size_t k = 0; k < kLanes; ++k) {
        const double m =
            (1 - w) * static_cast<double>(table.rows()[i].m[k]) + w * static_cast<double>(table.rows()[i + 1].m[k]);
        const double f = (1 - w) * static_cast<double>(table.rows()[i].m_factor[k]) +
                         w * static_cast<double>(table.rows()[i + 1].m_factor[k]);
        worst = std::max({worst, std::abs(m - exact[k].m.steady), std::abs(f + std::expm1(-dt / exact[k].m.tau))});
      }
    }
    // Linear interpolation errs by at most h^2 / 8 times the second derivative: 1/16 mV, and below 0.01 per mV^2.
    CHECK(worst < 5e-6);
  }
}

TEST_CASE("neuron labels: ranges are those of the base values, centre and width those of the data set") {
  const auto all = parameters();
  for (std::size_t k = 0; k < mrmf::neuron::kLabels; ++k) {
    double lowest = 1e9, highest = 0;
    for (int t = 0; t < kElectricalTypes; ++t) {
      const double base = base_conductances(static_cast<ElectricalType>(t)).at(all[k].region, all[k].channel);
      lowest = std::min(lowest, base);
      highest = std::max(highest, base);
    }
    INFO(all[k].name);
    CHECK(lowest == all[k].lowest);
    CHECK(highest == all[k].highest);
  }
  // Figures computed independently from the 157 cells' parameter files, to their eight digits.
  CHECK(centre(all[0]) == Approx(0.59985678).epsilon(1e-8));
  CHECK(half_width(all[0]) == Approx(1.00218747).epsilon(1e-8));
  CHECK(centre(all[10]) == Approx(-2.49322964).epsilon(1e-8));
  CHECK(half_width(all[10]) == Approx(1.78826867).epsilon(1e-8));
  CHECK(centre(all[18]) == Approx(-3.93116473).epsilon(1e-8));
  CHECK(half_width(all[18]) == Approx(2.06883527).epsilon(1e-8));
}

TEST_CASE("neuron labels: lie in [-1, 1] and give the conductance back") {
  for (int t = 0; t < kElectricalTypes; ++t) {
    const Conductances base = base_conductances(static_cast<ElectricalType>(t));
    std::array<double, mrmf::neuron::kParameters> u{};
    for (std::size_t k = 0; k < mrmf::neuron::kParameters; ++k) u[k] = std::sin(static_cast<double>(k + 1) * (t + 1));
    const Conductances g = scaled(base, u);
    for (std::size_t k = 0; k < mrmf::neuron::kLabels; ++k) {
      const mrmf::neuron::Parameter& p = parameters()[k];
      const double label = label_of(p, base.at(p.region, p.channel), u[k]);
      CHECK(std::abs(label) <= 1);
      CHECK(conductance_of(p, label) == Approx(g.at(p.region, p.channel)).scale(0));
      CHECK(std::abs(label_of(p, base.at(p.region, p.channel), 1)) <= 1 + 1e-12);
    }
    // What is not varied stays.
    CHECK(g.at(Region::dendrite, Channel::pas) == base.at(Region::dendrite, Channel::pas));
    CHECK(g.at(Region::soma, Channel::im) == base.at(Region::soma, Channel::im));
  }
}

TEST_CASE("neuron cells: every section is cut by its length, probes sit where they should") {
  for (int number = 0; number < 24; ++number) {
    const Cell cell = make_cell(number);
    CHECK(cell.compartments.size() >= 20);
    CHECK(cell.compartments.size() <= 40);
    for (const Section& s : cell.sections)
      CHECK(s.diameters.size() == static_cast<std::size_t>(1 + 2 * static_cast<int>(s.length / 40)));
    for (std::size_t i = 1; i < cell.compartments.size(); ++i) {
      CHECK(cell.compartments[i].parent >= 0);
      CHECK(cell.compartments[i].parent < static_cast<int>(i));
      CHECK(cell.compartments[i].to_parent > 0);
    }
    CHECK(cell.probes[0] == 0);
    // Nearest of all: within half a compartment (at most 20 um).
    CHECK(std::abs(cell.compartments[static_cast<std::size_t>(cell.probes[1])].distance - 150) < 20);
    CHECK(std::abs(cell.compartments[static_cast<std::size_t>(cell.probes[2])].distance - 50) < 20);
    CHECK(cell.compartments[static_cast<std::size_t>(cell.probes[1])].region == Region::axon);
    CHECK(cell.compartments[static_cast<std::size_t>(cell.probes[2])].region == Region::dendrite);
  }
  CHECK(make_cell(0).sections[1].length != make_cell(8).sections[1].length);
  CHECK(make_cell(3).sections[1].length == make_cell(3).sections[1].length);
  CHECK(make_cell(13).name == "cIR_013");
}

TEST_CASE("neuron stimulus: the described shape") {
  const std::vector<double> trace = stimulus();
  REQUIRE(trace.size() == 8000);
  CHECK(std::all_of(trace.begin(), trace.begin() + 800, [](double x) { return x == 0; }));
  CHECK(std::all_of(trace.begin() + 5600, trace.end(), [](double x) { return x == 0; }));
  const std::vector<double> inside(trace.begin() + 800, trace.begin() + 5600);
  const double mean = std::accumulate(inside.begin(), inside.end(), 0.0) / 4800;
  double variance = 0;
  for (const double x : inside) variance += (x - mean) * (x - mean) / 4800;
  // Published: -1.52 to 6.83, mean 0.174, standard deviation 1.84; a stand-in meets them roughly.
  CHECK(*std::min_element(inside.begin(), inside.end()) == Approx(-1.52).epsilon(0.15));
  CHECK(*std::max_element(inside.begin(), inside.end()) == Approx(6.83).epsilon(0.03));
  CHECK(std::abs(mean - 0.174) < 0.05);
  CHECK(std::sqrt(variance) == Approx(1.84).epsilon(0.03));
  int spikes = 0;
  for (std::size_t i = 1; i < trace.size(); ++i) spikes += trace[i - 1] < 3 && trace[i] >= 3 ? 1 : 0;
  CHECK(spikes == 10);
}

TEST_CASE("neuron stimulus: a step takes the current of its middle") {
  const std::vector<double> trace{0, 1, 3, 3};
  const std::vector<double> same = midpoint_current(trace, kStimulusStep, 3);
  CHECK(same[0] == Approx(0.5));
  CHECK(same[1] == Approx(2));
  CHECK(same[2] == Approx(3));
  const std::vector<double> fine = midpoint_current(trace, kStimulusStep / 2, 4);
  CHECK(fine[0] == Approx(0.25));
  CHECK(fine[3] == Approx(2.5));
}
