// Loops that the compiler vectorises, once per instruction set.
#pragma once

#include "kernels/onednn/instruction_set.hpp"

namespace mrmf::onednn {

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
