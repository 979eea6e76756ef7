// The instruction set in use (the processor's best, or the one that the environment limits the program to), loops that
// the compiler vectorises for each set, and the most arithmetic that the processor can do.
#pragma once

#include <string>

#include "kernels/cpu/vector_kernels.hpp"

namespace mrmf::cpu {

// The instruction set in use: the processor's best, or the one that the environment limits the program to. Kernels are
// compiled once per set; loops here are vectorised by the compiler for each set.

/// `generic`: what every processor of the architecture has, that is SSE2 or Neon. The others are x86-64's.
enum class InstructionSet { generic, avx2, avx512 };

/// The best set that the processor has and the environment allows. MRMF_MAX_CPU_ISA (generic, avx2 or avx512) limits
/// oneDNN, too; otherwise oneDNN's own ONEDNN_MAX_CPU_ISA counts. The first call decides, and must come before oneDNN
/// is used. ConfigError when the variable names no set.
InstructionSet instruction_set();

/// Whether the processor multiplies in bf16 (AVX512-BF16) and the environment allows that.
bool has_bf16_products();

/// Whether the processor multiplies tiles (AMX), the environment allows that, and the operating system lets this
/// process use them: the first call asks it.
bool has_amx();

/// "generic", "avx2" or "avx512"
std::string name(InstructionSet set);

/// The name of the set in use; if the processor has a better one, also what forbids it.
std::string describe_instruction_set();

/// What a set has, of what each set has.
template <class OfSet>
OfSet of_set(InstructionSet set, OfSet generic, OfSet avx2, OfSet avx512) {
  switch (set) {
    case InstructionSet::avx512: return avx512;
    case InstructionSet::avx2: return avx2;
    case InstructionSet::generic: break;
  }
  return generic;
}

// `flatten`: a call left in a loop would prevent vectorisation.
#if defined __clang__ || !defined __x86_64__  // clang-tidy reads these files and refuses the pair of attributes
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

/// Calls loop(), compiled for the instruction set in use. loop() calls inline functions on plain pointers.
template <class Loop>
void vectorised(const Loop& loop) {
  switch (instruction_set()) {
    case InstructionSet::avx512: return direct::sixteen_lanes_need_avx512 ? run_avx512(loop) : run_avx2(loop);
    case InstructionSet::avx2: return run_avx2(loop);
    case InstructionSet::generic: return run_generic(loop);
  }
}

// The most arithmetic that this machine can do in float32, measured.

/// Operations per second of loops of independent multiply-adds in registers, with the instruction set in use, on so
/// many threads at once; the best of many tries of some milliseconds. A multiply-add counts as two operations.
double fma_peak(int threads);

}  // namespace mrmf::cpu
