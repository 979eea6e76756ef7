#include "kernels/cpu/threads.hpp"

#include <omp.h>
#include <strings.h>

#include <algorithm>
#include <cstdlib>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "kernels/errors.hpp"

namespace mrmf::cpu {
namespace {

/// Tells the processor that this thread waits, so that it leaves the core's units to another thread of the core.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // yield does nothing on most of these processors
#endif
}

/// Whether waiting threads are to sleep at once: as the environment says, or because awaited ones have no core else.
bool sleep_at_once(int threads) {
  static const bool wanted = [] {
    const char* const policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && strcasecmp(policy, "passive") == 0;
  }();
  return wanted || threads > omp_get_num_procs();
}

}  // namespace

void require_threads(int wanted) {
  const int besides_this = std::min(wanted, omp_get_thread_limit()) - 1;
  std::latch all_tried(1);
  std::vector<std::jthread> threads;
  try {
    for (int i = 0; i < besides_this; ++i) threads.emplace_back([&] { all_tried.wait(); });
  } catch (const std::exception& error) {
    all_tried.count_down();
    throw FaultError("cannot start " + std::to_string(wanted) + " threads to compute with (" + error.what() +
                     "); ask for fewer (run.threads, --threads or OMP_NUM_THREADS), or raise the limit on processes "
                     "and memory (ulimit -u, ulimit -v, or the job's)");
  }
  all_tried.count_down();
}

int granted_threads(int wanted) {
  if (omp_in_parallel() != 0 || omp_get_active_level() >= omp_get_max_active_levels()) return 1;
  return std::min(wanted, omp_get_thread_limit());
}

ThreadScope::ThreadScope(int wanted)
    : count_(granted_threads(wanted)), count_before_(omp_get_max_threads()), dynamic_before_(omp_get_dynamic()) {
  if (dynamic_before_ != 0) omp_set_dynamic(0);
  if (count_before_ != count_) omp_set_num_threads(count_);
}

ThreadScope::~ThreadScope() {
  if (count_before_ != count_) omp_set_num_threads(count_before_);
  if (dynamic_before_ != 0) omp_set_dynamic(dynamic_before_);
}

void SharedLoop::wait(Clock::duration of_run) {
  // Several times what waking takes. A program that holds a core keeps it for milliseconds, and the awaited thread can
  // have this core sooner, once this thread sleeps.
  constexpr Clock::duration longest = std::chrono::microseconds(200);
  const int all = omp_get_num_threads();
  if (through_.fetch_add(1, std::memory_order_acq_rel) + 1 >= all || sleep_at_once(all)) return;
  const Clock::time_point end = Clock::now() + std::min(longest, of_run);
  while (through_.load(std::memory_order_acquire) < all && Clock::now() < end)
    for (int i = 0; i < 16; ++i) relax();
}

}  // namespace mrmf::cpu
