// Times that oneDNN itself reaches for one layer on this machine: the yardstick of `mrmf bench layers`.
#pragma once

#include "kernels/backend.hpp"

namespace mrmf::onednn {

/// Seconds of one call: the least over the repeats and over channels-last (dense layers: plain, too) and oneDNN's own
/// choice of layouts. Reorders between layouts are not counted.
struct BestTimes {
  double forward = 0, backward_data = 0, backward_weights = 0;
  double sum() const { return forward + backward_data + backward_weights; }
};

BestTimes best_conv_times(const ConvGeometry& geometry, Index rows, int repeats);
BestTimes best_dense_times(Index in, Index out, Index rows, int repeats);

}  // namespace mrmf::onednn
