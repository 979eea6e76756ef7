// Which of the kernels that are compiled once per instruction set are run: the processor's best, or those that the
// environment holds the program to.
#pragma once

#include <string>

namespace mrmf::onednn {

enum class InstructionSet { generic, avx2, avx512 };

/// The best set that the processor has and the environment allows: MRMF_MAX_CPU_ISA (generic, avx2 or avx512), which
/// oneDNN is held to as well, or oneDNN's own ONEDNN_MAX_CPU_ISA. Decided by the first call, which must come before
/// oneDNN is used. ConfigError: the variable names none.
InstructionSet instruction_set();

/// "generic", "avx2" or "avx512"
std::string name(InstructionSet set);

/// The name of the set in use; when the processor has a better one, also what forbids it.
std::string describe_instruction_set();

}  // namespace mrmf::onednn
