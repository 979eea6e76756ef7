// The channels of one compartment, eight side by side: one SIMD lane per channel. Which channel sits in which lane
// depends on the region alone, so that gates of all lanes come from one table row and the exponents are fixed:
//
//   lane        0        1       2         3              4               5             6        7
//   soma        NaTs2    K_Tst   Nap_Et2   Ca_LVAst       K_Pst           Ca            SKv3_1   Im
//   axon        NaTa     K_Tst   Nap_Et2   Ca_LVAst       K_Pst           Ca            SKv3_1   Im
//   dendrite    NaTs2    K_Tst   Nap_Et2   Ih             StochKv         KdShu2007     SKv3_1   Im
//   exponent    3        4       3         2 or 1         2 or 1          2 or 1        1        1
//
// The soma of some types has StochKv and KdShu2007 too: a second block with the dendrite's lanes.
#pragma once

#include <array>
#include <vector>

#include "src/simulators/neuron/cell.hpp"
#include "src/simulators/neuron/channels.hpp"

namespace mrmf::neuron {

inline constexpr int kLanes = 8;

template <class T>
using PerLane = std::array<T, kLanes>;

struct ChannelBlock {
  int compartment = 0;
  Region lanes = Region::soma;  ///< which row of the table above
  PerLane<double> reversal{};   ///< mV; calcium's lanes hold 0, their potential follows the concentration
  bool calcium() const { return lanes != Region::dendrite; }
};

/// Lanes of the two calcium channels, in soma and axon.
inline constexpr int kCalciumLow = 3, kCalciumHigh = 5;

/// The exponent of the activation gate.
int exponent(Region lanes, int lane);

/// The gates of all lanes at potential v.
PerLane<Gates> gates_at(Region lanes, double v);

/// Every compartment's block, then the soma's second one where the type has those channels.
std::vector<ChannelBlock> channel_blocks(const Cell& cell);

/// Maximal conductances, S/cm2, of the blocks with these lanes in a region. Lanes that belong to the region's other
/// block are 0. Ih is that at the soma's end of the dendrite: a compartment multiplies it by its ih_factor().
PerLane<double> block_conductances(const Conductances& g, Region region, Region lanes);
inline constexpr int kCation = 3;  ///< the lane of Ih, in the dendrite

}  // namespace mrmf::neuron
