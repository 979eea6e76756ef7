#include "src/simulators/neuron/gate_table.hpp"

#include <cmath>
#include <cstddef>

namespace mrmf::neuron {

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
