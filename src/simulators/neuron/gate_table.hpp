// Steady states and update factors of a region's gates, tabulated over the membrane potential for one time step.
#pragma once

#include <vector>

#include "src/simulators/neuron/channel_block.hpp"

namespace mrmf::neuron {

inline constexpr float kTableLowest = -256, kTableHighest = 256;  ///< mV; beyond them the end values hold
inline constexpr float kTablePerMillivolt = 16;

/// One row; x(t + dt) = x + factor (steady - x), factor = 1 - exp(-dt / tau).
struct alignas(64) GateRow {
  float m[kLanes], m_factor[kLanes], h[kLanes], h_factor[kLanes];
};

class GateTable {
 public:
  GateTable(Region lanes, double dt);
  const GateRow* rows() const { return rows_.data(); }
  static int size() { return static_cast<int>((kTableHighest - kTableLowest) * kTablePerMillivolt) + 2; }

 private:
  std::vector<GateRow> rows_;
};

}  // namespace mrmf::neuron
