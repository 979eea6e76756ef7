#include "src/simulators/neuron/cable.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/errors.hpp"

namespace mrmf::neuron {
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
