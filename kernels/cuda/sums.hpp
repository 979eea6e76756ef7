// Sums over the positions of an activation: the gradient of a bias.
#pragma once

#include "kernels/cuda/work.hpp"

namespace mrmf::cuda {

/// sums[c] = sum over `rows` positions of x (stored), for every channel; `scratch` has channel_sums_bytes() for at
/// least as many rows.
void channel_sums(const Work& work, Index rows, Index channels, const void* x, float* sums, void* scratch);
std::size_t channel_sums_bytes(const Storage& storage, Index rows, Index channels);

}  // namespace mrmf::cuda
