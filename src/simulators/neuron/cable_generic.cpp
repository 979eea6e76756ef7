// The inner loop for any processor.
#include "src/simulators/neuron/cable_kernel.inl"

namespace mrmf::neuron {

void run_cable_generic(const CableKernel& k, const TableGeometry& table) { run(k, table); }

}  // namespace mrmf::neuron
