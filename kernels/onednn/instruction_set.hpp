// Which of the kernels that are compiled once per instruction set are run: the processor's best, or those that the
// environment holds the program to; and loops that the compiler vectorises for each set.
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

// `flatten`: a call left in a loop would stop vectorisation.
#ifdef __clang__  // clang-tidy reads these files and refuses the pair of attributes
#define MRMF_LOOP_FOR(set)
#else
#define MRMF_LOOP_FOR(set) __attribute__((noinline, flatten, target("arch=" set)))
#endif

template <class Loop>
MRMF_LOOP_FOR("x86-64")
void run_generic(const Loop& loop) {
  loop();
}
template <class Loop>
MRMF_LOOP_FOR("x86-64-v3")
void run_avx2(const Loop& loop) {
  loop();
}
template <class Loop>
MRMF_LOOP_FOR("x86-64-v4")
void run_avx512(const Loop& loop) {
  loop();
}
#undef MRMF_LOOP_FOR

/// Calls loop(), which calls inline functions over plain pointers, compiled for the instruction set in use.
template <class Loop>
void vectorised(const Loop& loop) {
  switch (instruction_set()) {
    case InstructionSet::avx512: return run_avx512(loop);
    case InstructionSet::avx2: return run_avx2(loop);
    case InstructionSet::generic: return run_generic(loop);
  }
}

}  // namespace mrmf::onednn
