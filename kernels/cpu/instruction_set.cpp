#include "kernels/cpu/instruction_set.hpp"

#if defined __x86_64__ && defined __linux__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "kernels/cpu/threads.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/errors.hpp"
#include "kernels/onednn/operations.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cpu {
namespace {

constexpr const char* kVariable = "MRMF_MAX_CPU_ISA";
constexpr InstructionSet kSets[] = {InstructionSet::generic, InstructionSet::avx2, InstructionSet::avx512};

InstructionSet of_processor() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
#endif
  return InstructionSet::generic;
}

void hold_onednn_to(const std::string& wanted) {
  const auto* const set = std::ranges::find(kSets, wanted, name);
  if (set == std::end(kSets))
    throw ConfigError(std::string(kVariable) + "=" + wanted + ": there are generic, avx2 and avx512");
  if (*set >= of_processor()) return;  // oneDNN may still use newer instructions of its own
  onednn::hold_to(*set);
}

InstructionSet choose() {
  if (const char* wanted = std::getenv(kVariable); wanted != nullptr && *wanted != '\0') hold_onednn_to(wanted);
  const InstructionSet set = std::min(of_processor(), onednn::instruction_set());
  if (!direct::sixteen_lanes_need_avx512 && set == InstructionSet::avx2) return InstructionSet::avx512;
  return set;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = choose();
  return set;
}

bool has_bf16_products() {
  if (instruction_set() != InstructionSet::avx512) return false;
  if (!direct::sixteen_lanes_need_avx512) return true;
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512bf16") != 0 && onednn::has_bf16_products();
#else
  return false;
#endif
}

namespace {

bool ask_for_amx() {
  if (instruction_set() != InstructionSet::avx512) return false;
  if (!direct::sixteen_lanes_need_avx512) return true;
#if defined __x86_64__ && defined __linux__
  constexpr unsigned leaf = 7, tiles = 1U << 24, bf16 = 1U << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(leaf, 0, &a, &b, &c, &d) == 0 || (d & tiles) == 0 || (d & bf16) == 0) return false;
  constexpr long request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM; since Linux 5.16
  return onednn::has_amx() && ::syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace

bool has_amx() {
  static const bool has = ask_for_amx();
  return has;
}

std::string name(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512: return "avx512";
    case InstructionSet::avx2: return "avx2";
    case InstructionSet::generic: break;
  }
  return "generic";
}

std::string describe_instruction_set() {
  const std::string used = name(instruction_set());
  if (instruction_set() >= of_processor()) return used;
  return used + " (" + (std::getenv(kVariable) != nullptr ? kVariable : "ONEDNN_MAX_CPU_ISA") + " forbids " +
         name(of_processor()) + ")";
}

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
