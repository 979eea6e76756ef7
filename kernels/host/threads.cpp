#include "kernels/host/threads.hpp"

#include <omp.h>

#include <algorithm>

namespace mrmf::onednn {

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

}  // namespace mrmf::onednn
