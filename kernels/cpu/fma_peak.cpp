#include "kernels/cpu/fma_peak.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cpu {
namespace {

const fma::Loop& loop_in_use() {
  return *of_set(instruction_set(), fma::generic_loop, fma::avx2_loop, fma::avx512_loop)();
}

}  // namespace

double fma_peak(int threads) {
  constexpr long rounds = 2'000'000;
  constexpr int tries = 40;  // a fifth of a second: threads may begin on one core
  const fma::Loop& loop = loop_in_use();
  const ThreadScope scope(threads);
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const Timer timer;
#pragma omp parallel
    {
      std::vector<float> values(static_cast<std::size_t>(loop.values), 0.5F);  // sums stay at 1: no denormals
      loop.run(rounds, values.data());
    }
    best = std::max(best, static_cast<double>(scope.count() * rounds * loop.flop) / timer.seconds());
  }
  return best;
}

}  // namespace mrmf::cpu
