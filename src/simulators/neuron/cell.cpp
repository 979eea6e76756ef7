#include "src/simulators/neuron/cell.hpp"

#include <cmath>
#include <cstddef>
#include <numbers>

#include <fmt/format.h>

#include "kernels/errors.hpp"
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

namespace {

enum Group : std::size_t { A, B, C };

Group group_of(ElectricalType type) {
  switch (type) {
    case ElectricalType::bNAC:
    case ElectricalType::bSTUT: return A;
    case ElectricalType::cAC:
    case ElectricalType::cIR: return B;
    default: return C;
  }
}

struct BaseValue {
  Region region;
  Channel channel;
  std::array<double, 3> value;  // per group, S/cm2
};

// Blue Brain NMC portal, release of the 207 morpho-electrical types, as used by the DL4neurons data sets.
constexpr BaseValue kBase[] = {
    {Region::axon, Channel::sodium, {3.999855, 3.993125, 3.959764}},
    {Region::axon, Channel::k_tst, {0.042115, 0, 0.098908}},
    {Region::axon, Channel::nap, {1e-6, 0, 0}},
    {Region::axon, Channel::ca_lva, {0.009017, 0.009986, 1.5e-5}},
    {Region::axon, Channel::sk, {0.001224, 0.005611, 0.003442}},
    {Region::axon, Channel::k_pst, {0.001693, 0.06846, 0.004729}},
    {Region::axon, Channel::skv3, {0.386953, 0.517764, 0.317363}},
    {Region::axon, Channel::pas, {8e-6, 6.3e-5, 9.4e-5}},
    {Region::axon, Channel::im, {0.000554, 0.000345, 0.000999}},
    {Region::axon, Channel::ca, {0.0004, 0.000501, 3e-6}},
    {Region::soma, Channel::sodium, {0.150747, 0.395881, 0.197999}},
    {Region::soma, Channel::k_tst, {0.039863, 0.077616, 0.092965}},
    {Region::soma, Channel::nap, {1e-6, 1e-6, 1e-6}},
    {Region::soma, Channel::ca_lva, {0.003242, 0.009728, 0.001067}},
    {Region::soma, Channel::sk, {0.000523, 0.002099, 0.019726}},
    {Region::soma, Channel::k_pst, {0.005446, 0.000114, 0.156376}},
    {Region::soma, Channel::skv3, {0.503893, 0.260872, 0.297559}},
    {Region::soma, Channel::pas, {1e-4, 2e-5, 9.1e-5}},
    {Region::soma, Channel::im, {0.000478, 3.2e-5, 8e-6}},
    {Region::soma, Channel::ca, {0.000174, 2.8e-5, 3.2e-5}},
    {Region::dendrite, Channel::k_tst, {0.001511, 0.007375, 0.0095}},
    {Region::dendrite, Channel::skv3, {8.3e-5, 4.1e-5, 0.004399}},
    {Region::dendrite, Channel::nap, {0, 0, 1e-6}},
    {Region::dendrite, Channel::sodium, {0.000229, 0.001373, 1e-5}},
    {Region::dendrite, Channel::ih, {4.9e-5, 2.3e-5, 5.2e-5}},
    {Region::dendrite, Channel::im, {2.2e-5, 1.4e-5, 8e-6}},
    {Region::dendrite, Channel::pas, {1e-6, 1e-6, 1e-6}},
};

// Soma, axon, dendrite.
constexpr ElectricalConstants kConstants[3] = {
    {{-67.128897, -63.854018, -60.295916}, {645.079741, 468.069681, 0}, {0.0005, 0.001739, 0}},
    {{-69.781406, -64.601696, -63.118492}, {967.678789, 573.007045, 0}, {0.000814, 0.000503, 0}},
    {{-62.442793, -60.21651, -79.31574}, {731.707637, 64.27799, 0}, {0.000511, 0.010353, 0}},
};

constexpr std::array<Parameter, kParameters> kVaried{{
    {"gNaTa_tbar_NaTa_t_axonal", Region::axon, Channel::sodium, 3.959764, 3.999855},
    {"gCa_LVAstbar_Ca_LVAst_axonal", Region::axon, Channel::ca_lva, 1.5e-5, 0.009986},
    {"gSK_E2bar_SK_E2_axonal", Region::axon, Channel::sk, 0.001224, 0.005611},
    {"gK_Pstbar_K_Pst_axonal", Region::axon, Channel::k_pst, 0.001693, 0.06846},
    {"gSKv3_1bar_SKv3_1_axonal", Region::axon, Channel::skv3, 0.317363, 0.517764},
    {"g_pas_axonal", Region::axon, Channel::pas, 8e-6, 9.4e-5},
    {"gImbar_Im_axonal", Region::axon, Channel::im, 0.000345, 0.000999},
    {"gCabar_Ca_axonal", Region::axon, Channel::ca, 3e-6, 0.000501},
    {"gK_Tstbar_K_Tst_somatic", Region::soma, Channel::k_tst, 0.039863, 0.092965},
    {"gCa_LVAstbar_Ca_LVAst_somatic", Region::soma, Channel::ca_lva, 0.001067, 0.009728},
    {"gSK_E2bar_SK_E2_somatic", Region::soma, Channel::sk, 0.000523, 0.019726},
    {"gK_Pstbar_K_Pst_somatic", Region::soma, Channel::k_pst, 0.000114, 0.156376},
    {"gSKv3_1bar_SKv3_1_somatic", Region::soma, Channel::skv3, 0.260872, 0.503893},
    {"g_pas_somatic", Region::soma, Channel::pas, 2e-5, 1e-4},
    {"gNaTs2_tbar_NaTs2_t_somatic", Region::soma, Channel::sodium, 0.150747, 0.395881},
    {"gCabar_Ca_somatic", Region::soma, Channel::ca, 2.8e-5, 0.000174},
    {"gK_Tstbar_K_Tst_dend", Region::dendrite, Channel::k_tst, 0.001511, 0.0095},
    {"gSKv3_1bar_SKv3_1_dend", Region::dendrite, Channel::skv3, 4.1e-5, 0.004399},
    {"gNaTs2_tbar_NaTs2_t_dend", Region::dendrite, Channel::sodium, 1e-5, 0.001373},
    {"gK_Tstbar_K_Tst_axonal", Region::axon, Channel::k_tst, 0, 0},
    {"gNap_Et2bar_Nap_Et2_dend", Region::dendrite, Channel::nap, 0, 0},
    {"gkbar_StochKv_dend", Region::dendrite, Channel::stoch_kv, 0, 0},
    {"gkbar_KdShu2007_dend", Region::dendrite, Channel::kd_shu, 0, 0},
}};

// The channels that only some types of a group have.
void add_extra_channels(ElectricalType type, Conductances& g) {
  const auto stochastic = [&g](double soma, double dendrite) {
    g.at(Region::soma, Channel::stoch_kv) = soma;
    g.at(Region::dendrite, Channel::stoch_kv) = dendrite;
  };
  if (type == ElectricalType::bSTUT) stochastic(0.104239, 0.413603);
  if (type == ElectricalType::cIR) stochastic(0.743567, 0.325478);
  if (type == ElectricalType::cSTUT) stochastic(0.36795, 0.567935);
  if (type == ElectricalType::dSTUT) stochastic(0.893658, 0.378682);
  if (type == ElectricalType::dNAC || type == ElectricalType::dSTUT) {
    g.at(Region::soma, Channel::kd_shu) = 0.000425;
    g.at(Region::dendrite, Channel::kd_shu) = 0.000483;
  }
}

}  // namespace

const char* name(ElectricalType type) {
  constexpr const char* kNames[] = {"cAC", "cNAC", "bNAC", "dNAC", "cSTUT", "cIR", "bSTUT", "dSTUT"};
  return kNames[static_cast<std::size_t>(type)];
}

Conductances base_conductances(ElectricalType type) {
  Conductances g;
  for (const BaseValue& base : kBase) g.at(base.region, base.channel) = base.value[group_of(type)];
  add_extra_channels(type, g);
  return g;
}

ElectricalConstants electrical_constants(ElectricalType type) { return kConstants[group_of(type)]; }

std::span<const Parameter, kParameters> parameters() { return kVaried; }

double centre(const Parameter& p) { return (std::log10(p.lowest) + std::log10(p.highest)) / 2; }

double half_width(const Parameter& p) { return (std::log10(p.highest) - std::log10(p.lowest)) / 2 + 1; }

double label_of(const Parameter& p, double base, double u) {
  return (u + std::log10(base) - centre(p)) / half_width(p);
}

double conductance_of(const Parameter& p, double label) { return std::pow(10, label * half_width(p) + centre(p)); }

Conductances scaled(const Conductances& base, std::span<const double, kParameters> u) {
  Conductances g = base;
  for (std::size_t k = 0; k < kParameters; ++k) g.at(kVaried[k].region, kVaried[k].channel) *= std::pow(10, u[k]);
  return g;
}

}  // namespace mrmf::neuron
