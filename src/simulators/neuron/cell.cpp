#include "src/simulators/neuron/cell.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <numbers>

#include "kernels/check.hpp"
#include "kernels/random.hpp"

namespace mrmf::neuron {
namespace {

constexpr std::uint64_t kMorphologyKey = 0x6D6F7270686F;  // apart from every sample's stream
constexpr double kAxonProbe = 150, kDendriteProbe = 50;   // um, as in the published data set

Section make_section(std::string name, Region region, int parent, double length, double first, double last) {
  Section s{std::move(name), region, parent, length, {}, 0};
  const int parts = 1 + 2 * static_cast<int>(length / kSegmentLength);
  for (int i = 0; i < parts; ++i) s.diameters.push_back(first + (last - first) * (i + 0.5) / parts);
  return s;
}

std::vector<Section> make_morphology(int number) {
  Rng rng(mix(kMorphologyKey, static_cast<std::uint64_t>(number)));
  const double soma = rng.uniform(20, 24);
  std::vector<Section> sections{make_section("soma", Region::soma, -1, soma, soma, soma)};
  const double initial = rng.uniform(30, 39), axon = rng.uniform(240, 279), width = rng.uniform(1.4, 2.0);
  sections.push_back(make_section("axon_initial", Region::axon, 0, initial, width, width));
  sections.push_back(make_section("axon", Region::axon, 1, axon, 0.8 * width, 0.5 * width));
  sections.back().distance = initial;
  for (int i = 0; i < 3; ++i) {
    const double length = rng.uniform(100, 119), thick = rng.uniform(4, 5.5), thin = rng.uniform(2, 3);
    sections.push_back(make_section(fmt::format("dend_{}", i), Region::dendrite, 0, length, thick, thin));
  }
  return sections;
}

// Resistance (ohm) of half a compartment along its axis.
double half_resistance(double length_um, double diameter_um) {
  const double radius = diameter_um * 1e-4 / 2;
  return kAxialResistivity * length_um * 1e-4 / 2 / (std::numbers::pi * radius * radius);
}

int nearest(const std::vector<Compartment>& compartments, Region region, double distance) {
  int best = -1;
  double gap = 0;
  for (std::size_t i = 0; i < compartments.size(); ++i) {
    if (compartments[i].region != region) continue;
    const double d = std::abs(compartments[i].distance - distance);
    if (best < 0 || d < gap) best = static_cast<int>(i), gap = d;
  }
  return best;
}

}  // namespace

std::vector<Compartment> compartments_of(const std::vector<Section>& sections) {
  std::vector<Compartment> all;
  std::vector<int> last(sections.size());
  for (std::size_t s = 0; s < sections.size(); ++s) {
    const Section& section = sections[s];
    const double piece = section.length / static_cast<double>(section.diameters.size());
    double before = 0;  // half resistance of the parent; none for the soma, whose middle is its centre
    int parent = -1;
    if (section.parent >= 0) {
      const Section& p = sections[static_cast<std::size_t>(section.parent)];
      MRMF_CHECK(section.parent < static_cast<int>(s), "a section comes after its parent");
      parent = last[static_cast<std::size_t>(section.parent)];
      if (p.region != Region::soma)
        before = half_resistance(p.length / static_cast<double>(p.diameters.size()), p.diameters.back());
    }
    for (std::size_t i = 0; i < section.diameters.size(); ++i) {
      const double here = half_resistance(piece, section.diameters[i]);
      const double area = std::numbers::pi * section.diameters[i] * piece * 1e-8;
      const double centre = section.parent < 0 ? 0 : section.distance + (static_cast<double>(i) + 0.5) * piece;
      all.push_back({parent, static_cast<int>(s), section.region, area, parent < 0 ? 0 : 1 / (before + here), centre});
      parent = static_cast<int>(all.size()) - 1;
      before = here;
    }
    last[s] = parent;
  }
  return all;
}

Cell make_cell(int number) {
  MRMF_CHECK(number >= 0, "cells are counted from 0");
  Cell cell;
  cell.type = static_cast<ElectricalType>(number % kElectricalTypes);
  cell.name = fmt::format("{}_{:03}", name(cell.type), number);
  cell.sections = make_morphology(number);
  cell.compartments = compartments_of(cell.sections);
  cell.probes = {0, nearest(cell.compartments, Region::axon, kAxonProbe),
                 nearest(cell.compartments, Region::dendrite, kDendriteProbe)};
  cell.base = base_conductances(cell.type);
  cell.constants = electrical_constants(cell.type);
  return cell;
}

double ih_factor(double distance) { return -0.8696 + 2.087 * std::exp(0.003 * distance); }

}  // namespace mrmf::neuron
