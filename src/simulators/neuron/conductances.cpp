#include "src/simulators/neuron/conductances.hpp"

#include <cmath>
#include <cstddef>

namespace mrmf::neuron {
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
