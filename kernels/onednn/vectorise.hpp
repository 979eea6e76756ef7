// Loops that the compiler vectorises, once per instruction set; the processor's own is chosen when the program loads.
#pragma once

/// Put before the definition of a loop over plain pointers. `flatten`: a call left in the loop would stop
/// vectorisation.
#ifdef __clang__  // clang-tidy reads these files and refuses the pair of attributes
#define MRMF_VECTORISE
#else
#define MRMF_VECTORISE __attribute__((flatten, target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#endif
