// Time spent in a stream, measured by the device itself: it works inside recorded steps, where events give no times.
#pragma once

#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

struct StampBlock {
  unsigned long long begin = 0, total = 0;  ///< nanoseconds; in device memory
};
void stamp_begin(cudaStream_t stream, StampBlock* stamps);
/// total += now - begin
void stamp_end(cudaStream_t stream, StampBlock* stamps);

}  // namespace mrmf::cuda
