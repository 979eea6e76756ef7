#include "src/simulators/neuron/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "kernels/cpu/instruction_set.hpp"
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

namespace {

constexpr double kSodium = 50, kPotassium = -85, kPotassiumDendrite = -77, kCationReversal = -45, kDelay = -100;  // mV

constexpr PerLane<double> kReversal = {kSodium, kPotassium, kSodium, 0, kPotassium, 0, kPotassium, kPotassium};
constexpr PerLane<double> kReversalDendrite = {
    kSodium, kPotassiumDendrite, kSodium,           kCationReversal, kPotassiumDendrite,
    kDelay,  kPotassiumDendrite, kPotassiumDendrite};

constexpr PerLane<Channel> kChannels = {Channel::sodium, Channel::k_tst, Channel::nap,  Channel::ca_lva,
                                        Channel::k_pst,  Channel::ca,    Channel::skv3, Channel::im};
constexpr PerLane<Channel> kChannelsDendrite = {Channel::sodium,   Channel::k_tst,  Channel::nap,  Channel::ih,
                                                Channel::stoch_kv, Channel::kd_shu, Channel::skv3, Channel::im};

constexpr std::size_t kStochLane = 4, kDelayLane = 5;

}  // namespace

int exponent(Region lanes, int lane) {
  constexpr PerLane<int> kPowers = {3, 4, 3, 2, 2, 2, 1, 1};
  constexpr PerLane<int> kPowersDendrite = {3, 4, 3, 1, 1, 1, 1, 1};
  return (lanes == Region::dendrite ? kPowersDendrite : kPowers)[static_cast<std::size_t>(lane)];
}

PerLane<Gates> gates_at(Region lanes, double v) {
  const Gates sodium = sodium_transient(v, lanes == Region::axon ? 0 : 6);
  const Gates k_tst = potassium_transient(v), nap = sodium_persistent(v);
  const Gates skv3 = potassium_fast(v), im = potassium_muscarinic(v);
  if (lanes == Region::dendrite)
    return {sodium, k_tst, nap, cation_h(v), potassium_stochastic(v), potassium_delay(v), skv3, im};
  return {sodium, k_tst, nap, calcium_low(v), potassium_persistent(v), calcium_high(v), skv3, im};
}

std::vector<ChannelBlock> channel_blocks(const Cell& cell) {
  std::vector<ChannelBlock> blocks;
  for (std::size_t i = 0; i < cell.compartments.size(); ++i) {
    const Region region = cell.compartments[i].region;
    blocks.push_back({static_cast<int>(i), region, region == Region::dendrite ? kReversalDendrite : kReversal});
  }
  if (cell.base.at(Region::soma, Channel::stoch_kv) > 0 || cell.base.at(Region::soma, Channel::kd_shu) > 0) {
    PerLane<double> reversal = kReversalDendrite;
    reversal[kStochLane] = kPotassium;
    blocks.push_back({0, Region::dendrite, reversal});
  }
  return blocks;
}

PerLane<double> block_conductances(const Conductances& g, Region region, Region lanes) {
  const bool second = lanes != region;  // second block of the soma: its other channels are in the first
  PerLane<double> value{};
  for (std::size_t k = 0; k < kLanes; ++k) {
    if (second && k != kStochLane && k != kDelayLane) continue;
    value[k] = g.at(region, (lanes == Region::dendrite ? kChannelsDendrite : kChannels)[k]);
  }
  if (lanes == Region::dendrite) value[kStochLane] *= 1e-4 * kSpeedUpStoch;
  return value;
}

GateTable::GateTable(Region lanes, double dt) : rows_(static_cast<std::size_t>(size())) {
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const double v = kTableLowest + static_cast<double>(i) / kTablePerMillivolt;
    const PerLane<Gates> gates = gates_at(lanes, v);
    for (std::size_t k = 0; k < kLanes; ++k) {
      rows_[i].m[k] = static_cast<float>(gates[k].m.steady);
      rows_[i].m_factor[k] = static_cast<float>(-std::expm1(-dt / gates[k].m.tau));
      rows_[i].h[k] = static_cast<float>(gates[k].h.steady);
      rows_[i].h_factor[k] = static_cast<float>(-std::expm1(-dt / gates[k].h.tau));
    }
  }
}

namespace {

RunCable runner(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::avx2) return run_cable_avx2;
#endif
  (void)set;
  return run_cable_generic;
}

// Sets of maximal conductances: one per region, and one for the soma's second block.
constexpr std::size_t kSets = kRegions + 1, kSecondSomaSet = kRegions;

// Hands out consecutive pieces of a thread's memory.
class Pieces {
 public:
  explicit Pieces(std::vector<Row>& memory) : next_(memory.data()->value) {}
  float* take(std::size_t rows) {
    float* p = next_;
    next_ += rows * kSamples;
    return p;
  }

 private:
  float* next_;
};

}  // namespace

InstructionSet best_instruction_set() {
  return cpu::instruction_set() == cpu::InstructionSet::generic ? InstructionSet::generic : InstructionSet::avx2;
}

GateTables::GateTables(double dt)
    : dt_(dt), tables_{GateTable(Region::soma, dt), GateTable(Region::axon, dt), GateTable(Region::dendrite, dt)} {}

Cable::Cable(const Cell& cell, std::shared_ptr<const GateTables> tables, std::span<const double> current,
             int steps_per_bin, InstructionSet set)
    : cell_(cell),
      tables_(std::move(tables)),
      steps_per_bin_(steps_per_bin),
      run_(runner(set)),
      sk_factor_(static_cast<float>(-std::expm1(-tables_->dt() / kSkTau))),
      channel_blocks_(channel_blocks(cell)) {
  MRMF_CHECK(steps_per_bin > 0 && current.size() % static_cast<std::size_t>(steps_per_bin) == 0, "whole bins");
  const double dt = tables_->dt();
  std::vector<double> fixed(cell_.compartments.size(), 1e-3 * kCapacitance / dt);
  for (std::size_t i = 0; i < cell_.compartments.size(); ++i) {
    const Compartment& c = cell_.compartments[i];
    const auto region = static_cast<std::size_t>(c.region);
    const auto parent = static_cast<std::size_t>(std::max(c.parent, 0));
    const double parent_area = cell_.compartments[parent].area;
    parent_.push_back(c.parent);
    to_parent_.push_back(static_cast<float>(c.to_parent / c.area));
    from_child_.push_back(static_cast<float>(c.to_parent / parent_area));
    fixed[i] += c.to_parent / c.area;
    fixed[parent] += c.to_parent / parent_area;
    const double decay = cell_.constants.calcium_decay[region];
    calcium_gain_.push_back(static_cast<float>(calcium_per_current(cell_.constants.calcium_gamma[region]) * decay));
    calcium_factor_.push_back(decay > 0 ? static_cast<float>(-std::expm1(-dt / decay)) : 0.0F);
  }
  fixed_diagonal_.assign(fixed.begin(), fixed.end());
  for (const double i : current) current_.push_back(static_cast<float>(1e-6 * i / cell_.compartments[0].area));
  reversal_.resize(channel_blocks_.size());
  for (std::size_t b = 0; b < channel_blocks_.size(); ++b) {
    const ChannelBlock& block = channel_blocks_[b];
    for (std::size_t k = 0; k < kLanes; ++k) reversal_[b].value[k] = static_cast<float>(block.reversal[k]);
    const Compartment& here = cell_.compartments[static_cast<std::size_t>(block.compartment)];
    const std::size_t which = block.lanes == here.region ? static_cast<std::size_t>(here.region) : kSecondSomaSet;
    blocks_.push_back({block.compartment, block.calcium(), tables_->of(block.lanes).rows()->m, reversal_[b].value,
                       static_cast<int>(which), static_cast<float>(ih_factor(here.distance))});
  }
}

void Cable::fill(const Conductances& g, std::size_t lane, const Samples& to) const {
  for (std::size_t set = 0; set < kSets; ++set) {
    const Region region = set == kSecondSomaSet ? Region::soma : static_cast<Region>(set);
    const Region lanes = set == kSecondSomaSet ? Region::dendrite : region;
    const PerLane<double> values = block_conductances(g, region, lanes);
    for (std::size_t k = 0; k < kLanes; ++k)
      to.conductance[(set * kSamples + lane) * kSamples + k] = static_cast<float>(values[k]);
  }
  for (std::size_t i = 0; i < parent_.size(); ++i) {
    const Region region = cell_.compartments[i].region;
    const double leak = g.at(region, Channel::pas);
    const double reversal = cell_.constants.leak_reversal[static_cast<std::size_t>(region)];
    to.leak[i * kSamples + lane] = static_cast<float>(leak);
    to.leak_drive[i * kSamples + lane] = static_cast<float>(leak * reversal);
    to.sk[i * kSamples + lane] = static_cast<float>(g.at(region, Channel::sk));
  }
}

void Cable::run(std::span<const Conductances> samples, CableWork& work) const {
  MRMF_CHECK(!samples.empty() && samples.size() <= kSamples, "a batch has 1 to 8 samples");
  const std::size_t n = parent_.size(), blocks = blocks_.size();
  constexpr std::size_t kPerBlock = 2, kPerCompartment = 13;
  work.memory.resize((kSets + kPerBlock * blocks) * kSamples + kPerCompartment * n);
  work.bins.resize(static_cast<std::size_t>(bins()) * kProbes);
  Pieces pieces(work.memory);
  const auto per_block = [&] { return pieces.take(blocks * kSamples); };
  const auto per_compartment = [&] { return pieces.take(n); };
  const Samples inputs{pieces.take(kSets * kSamples), per_compartment(), per_compartment(), per_compartment()};
  for (std::size_t lane = 0; lane < kSamples; ++lane) fill(samples[std::min(lane, samples.size() - 1)], lane, inputs);

  CableKernel k{};
  k.compartments = static_cast<int>(n), k.blocks = static_cast<int>(blocks);
  k.parent = parent_.data(), k.to_parent = to_parent_.data(), k.from_child = from_child_.data();
  k.fixed_diagonal = fixed_diagonal_.data();
  k.calcium_gain = calcium_gain_.data(), k.calcium_factor = calcium_factor_.data(), k.sk_factor = sk_factor_;
  k.block = blocks_.data();
  k.conductance = inputs.conductance, k.leak = inputs.leak, k.leak_drive = inputs.leak_drive, k.sk = inputs.sk;
  k.m = per_block(), k.h = per_block();
  k.voltage = per_compartment(), k.calcium = per_compartment(), k.sk_open = per_compartment();
  k.sum = per_compartment(), k.drive = per_compartment(), k.calcium_sum = per_compartment();
  k.calcium_reversal = per_compartment(), k.calcium_current = per_compartment();
  k.diagonal = per_compartment(), k.right = per_compartment();
  std::fill_n(k.voltage, n * kSamples, static_cast<float>(kRestVoltage));
  std::fill_n(k.calcium, n * kSamples, static_cast<float>(kCalciumRest));
  k.current = current_.data(), k.steps = static_cast<int>(current_.size()), k.steps_per_bin = steps_per_bin_;
  std::copy(cell_.probes.begin(), cell_.probes.end(), k.probes);
  k.bins = work.bins.data()->value, k.peak = work.peak.value;
  run_(k, {kTableLowest, kTableHighest, kTablePerMillivolt});
}

}  // namespace mrmf::neuron
