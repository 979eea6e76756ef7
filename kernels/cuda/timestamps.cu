// Device timestamps around queued work.
#include <chrono>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace mrmf::cuda {
namespace {

MRMF_HD inline unsigned long long now() {
#ifdef __CUDA_ARCH__
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
#else
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

struct Begin {
  StampBlock* stamps;
  MRMF_HD void operator()(std::uint32_t) const { stamps->begin = now(); }
};
struct End {
  StampBlock* stamps;
  MRMF_HD void operator()(std::uint32_t) const { stamps->total += now() - stamps->begin; }
};

}  // namespace

void stamp_begin(cudaStream_t stream, StampBlock* stamps) { for_each(stream, 1, Begin{stamps}); }
void stamp_end(cudaStream_t stream, StampBlock* stamps) { for_each(stream, 1, End{stamps}); }

}  // namespace mrmf::cuda
