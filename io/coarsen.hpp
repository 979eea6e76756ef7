// Lower resolutions of data in memory.
#pragma once

#include "kernels/tensor.hpp"

namespace mrmf {

/// The shape of a sample whose axes are averaged by these factors (paper section 3.1).
/// ConfigError when a factor is below 1 or does not divide its axis, or when an unused axis has one other than 1.
Shape coarse_shape(const Shape& sample, const Extent& factor);

/// Averages blocks of factor[0] x factor[1] x factor[2] positions, channel by channel, of every sample in `fine`
/// (a whole number of samples of shape `sample`, channels-last) into `coarse`. Sums in double, in an order that does
/// not depend on the number of threads.
void coarsen(ConstSpan fine, const Shape& sample, const Extent& factor, Span coarse);

}  // namespace mrmf
