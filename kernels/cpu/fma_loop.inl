// A loop of multiply-adds that depend on nothing but themselves, written with GCC's vector extensions and included once
// per instruction set. The including file defines VECTOR_LANES. Everything here has internal linkage.

namespace mrmf::cpu::fma {
namespace {

#include "kernels/cpu/vectors.inl"

constexpr long chains = 12;  // more than a core has under way: two units, and four cycles for each result

void run(long rounds, float* values) {
  Vector sums[chains];
  for (long i = 0; i < chains; ++i) sums[i] = broadcast(values[i]);
  const Vector factor = broadcast(values[chains]), term = broadcast(values[chains + 1]);
  for (long round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (long i = 0; i < chains; ++i) sums[i] = sums[i] * factor + term;
  for (long i = 0; i < chains; ++i) values[i] = sums[i][0];
}

constexpr Loop loop{chains + 2, 2 * chains* lanes, run};

}  // namespace
}  // namespace mrmf::cpu::fma
