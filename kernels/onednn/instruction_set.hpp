// Which of the kernels that are compiled once per instruction set this processor runs.
#pragma once

namespace mrmf::onednn {

enum class InstructionSet { generic, avx2, avx512 };

inline InstructionSet instruction_set() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
  return InstructionSet::generic;
}

}  // namespace mrmf::onednn
