#include "src/simulators/neuron/channels.hpp"

#include <cmath>
#include <cstddef>

namespace mrmf::neuron {
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

}  // namespace mrmf::neuron
