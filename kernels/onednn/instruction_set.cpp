#include <dnnl.hpp>

#include "kernels/check.hpp"
#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {
namespace {

using cpu::InstructionSet;

dnnl::cpu_isa in_onednn(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512: return dnnl::cpu_isa::avx512_core;
    case InstructionSet::avx2: return dnnl::cpu_isa::avx2;
    case InstructionSet::generic: break;
  }
  return dnnl::cpu_isa::sse41;  // the lowest limit that oneDNN accepts
}

}  // namespace

// oneDNN's values are bit sets.
InstructionSet instruction_set() {
  const auto used = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto within = [used](InstructionSet set) {
    const auto bits = static_cast<unsigned>(in_onednn(set));
    return (used & bits) == bits;
  };
  return within(InstructionSet::avx512) ? InstructionSet::avx512
         : within(InstructionSet::avx2) ? InstructionSet::avx2
                                        : InstructionSet::generic;
}

void hold_to(InstructionSet set) {
  const dnnl::status status = dnnl::set_max_cpu_isa(in_onednn(set));
  MRMF_CHECK(status == dnnl::status::success, "oneDNN cannot be held to an instruction set any more: it is in use");
}

}  // namespace mrmf::onednn
