// The inner loop for processors with AVX2; the build adds the flags.
#include "src/simulators/neuron/cable_kernel.inl"

namespace mrmf::neuron {

void run_cable_avx2(const CableKernel& k, const TableGeometry& table) { run(k, table); }

}  // namespace mrmf::neuron
