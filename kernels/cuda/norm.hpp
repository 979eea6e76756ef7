// Batch norm of stored activations, with the ReLU and the average pooling that may follow it in the same pass. A plain
// batch norm is the case of slope 1 (no activation) and no pooling.
//
// Statistics are sums of distances from a value of the channel, so that a mean far from zero costs no precision in
// float32 partial sums; mean and variance are formed from them in double.
#pragma once

#include "kernels/backend.hpp"
#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

/// One batch norm on one stream.
struct NormWork {
  Work work;
  NormReluPool settings;
  void* scratch = nullptr;   ///< norm_scratch_bytes() for at least as many samples
  RankSum* ranks = nullptr;  ///< null: statistics of this rank alone
};

/// The settings of a batch norm with nothing behind it, over `positions` positions of a sample.
NormReluPool plain_norm(const NormSettings& settings, Index positions);

std::size_t norm_scratch_bytes(const Storage& storage, const NormReluPool& settings, Index n);

/// Reads x twice when training (statistics, result), else once; writes y.
void norm_forward(const NormWork& norm, bool training, Index n, const void* x, const NormMemory& memory, void* y);

/// After a training forward. Reads x and dy for the sums, and once more where dx is not null. dx overlaps neither.
struct NormBackward {
  const void* x;
  const void* dy;
  float* dgamma;
  float* dbeta;
  void* dx;
};
void norm_backward(const NormWork& norm, Index n, const NormBackward& data, const NormMemory& memory);

}  // namespace mrmf::cuda
