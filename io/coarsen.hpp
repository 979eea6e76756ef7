// Lower resolutions of data in memory.
#pragma once

#include "io/element.hpp"
#include "io/order.hpp"

namespace mrmf {

/// The shape of a sample whose axes are averaged by these factors (paper section 3.1).
/// ConfigError when a factor is below 1 or does not divide its axis, or when an unused axis has one other than 1.
Shape coarse_shape(const Shape& sample, const Extent& factor);

/// Samples in memory, one after the other.
struct StoredSamples {
  ElementType type = ElementType::float32;
  Shape sample;  ///< of one of them, channels-last
  const void* data = nullptr;
};

/// Lines of the coarse data along the last axis: lines [first, first + count) of all there are in all samples.
/// Averages blocks of factor[0] x factor[1] x factor[2] positions of what each element is as float32, channel by
/// channel, into `coarse`, which begins with the first of the lines. Sums in double, in one order. On this thread.
void coarsen_lines(const StoredSamples& fine, const Extent& factor, Range lines, float* coarse);

/// Averages blocks of factor[0] x factor[1] x factor[2] positions, channel by channel, of every sample in `fine`
/// (a whole number of samples of shape `sample`, channels-last) into `coarse`, on all threads: the same numbers.
void coarsen(ConstSpan fine, const Shape& sample, const Extent& factor, Span coarse);

}  // namespace mrmf
