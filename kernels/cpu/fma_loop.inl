// A loop of multiply-adds that depend on nothing but themselves, written with GCC's vector extensions and included once
// per instruction set. The including file defines VECTOR_LANES. Everything here has internal linkage.

namespace mrmf::cpu::fma {
namespace {

#include "kernels/cpu/vectors.inl"

// More than a core has under way: two units, or four on ARM, and four cycles for each result.
#ifdef __aarch64__
constexpr long chains = 24;
#else
constexpr long chains = 12;
#endif

void run(long rounds, float* values) {
  Vector sums[chains];
  for (long i = 0; i < chains; ++i) sums[i] = broadcast(values[i]);
  const Vector factor = broadcast(values[chains]), term = broadcast(values[chains + 1]);
  for (long round = 0; round < rounds; ++round)
#pragma GCC unroll 24
    for (long i = 0; i < chains; ++i) sums[i] = sums[i] * factor + term;
  for (long i = 0; i < chains; ++i) values[i] = sums[i][0];
}

constexpr Loop loop{chains + 2, 2 * chains* lanes, run};

}  // namespace
}  // namespace mrmf::cpu::fma
