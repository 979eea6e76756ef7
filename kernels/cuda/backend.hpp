// The makers of what the CUDA backend is put together from (backend.cpp).
#pragma once

#include <memory>

#include "kernels/backend.hpp"

namespace mrmf::cuda {

class Device;

std::unique_ptr<WeightedOp> make_conv(Device& device, const ConvGeometry& geometry, Index max_rows);
std::unique_ptr<WeightedOp> make_dense(Device& device, Index in, Index out, Index max_rows);
std::unique_ptr<PoolOp> make_pool(Device& device, const PoolGeometry& geometry);
std::unique_ptr<NormOp> make_norm(Device& device, const NormSettings& settings);
std::unique_ptr<NormOp> make_norm_relu_pool(Device& device, const NormReluPool& settings, Index max_rows);
/// Null unless `pool` is a max pooling with stride = window.
std::unique_ptr<ConvPoolOp> make_conv_pool_relu(Device& device, const ConvGeometry& conv, const PoolGeometry& pool,
                                                Index max_rows);
/// Null where it would take too much of the memory that is left.
std::unique_ptr<SampleTable> make_table(Device& device, const SampleTable::Settings& settings);
/// For batches of at most samples.n; each block of factors' neighbours is averaged on the device.
std::unique_ptr<Feed> make_feed(Device& device, const Shape& samples, Index outputs, const Extent& factors);

/// Sums over the ranks of a team in device memory (mpi/nccl_all_reduce.cpp). Collective over the peers. FaultError when
/// NCCL cannot connect them.
std::unique_ptr<AllReduce> make_nccl_all_reduce(Device& device, const Peers& peers);

}  // namespace mrmf::cuda
