// Geometry of convolutions and poolings: sizes alone, no memory.
#pragma once

#include "kernels/tensor.hpp"

namespace mrmf {

/// Geometry of a convolution over 1-3 spatial axes; unused leading axes have size and kernel 1.
struct ConvGeometry {
  Index in_channels = 1;
  Index out_channels = 1;
  Extent in{1, 1, 1};
  Extent kernel{1, 1, 1};
  Extent stride{1, 1, 1};
  Extent pad_before{0, 0, 0};
  Extent pad_after{0, 0, 0};

  Extent out() const;  ///< floor((in + pads - kernel) / stride) + 1 per axis
  Index weights() const { return out_channels * product(kernel) * in_channels; }
};

enum class PoolKind { max, average };

/// Geometry of a pooling without padding; incomplete windows at the end are dropped (floor).
struct PoolGeometry {
  PoolKind kind = PoolKind::max;
  Index channels = 1;
  Extent in{1, 1, 1};
  Extent window{1, 1, 1};
  Extent stride{1, 1, 1};

  Extent out() const;
};

}  // namespace mrmf
