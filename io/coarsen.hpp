// Data at a lower resolution: samples in memory, and copies of whole files.
#pragma once

#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/element.hpp"
#include "io/order.hpp"
#include "io/output_file.hpp"

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

/// What coarse_copy() makes of what.
struct CoarseCopy {
  std::string source, target;
  Replace replace = Replace::nothing;  ///< of the target
  Extent factor{1, 1, 1};
  int axes = 1;                             ///< of the samples
  std::vector<std::string> samples;         ///< data sets to average; empty: all that have so many axes
  ElementType type = ElementType::float32;  ///< or uint16: means are rounded to the nearest integer
  MissingRule missing = MissingRule::refuse;
  std::string program;  ///< name and version, for the provenance
};

/// What was written.
struct CoarseFile {
  std::vector<std::string> samples;
  Index count = 0;  ///< samples in all of these data sets
  Index bytes = 0;  ///< of the target
};

/// Collective; each rank averages its part of the rows. Writes the target with the source's data sets: samples averaged
/// (contiguous), all others as they are, the attributes of all but references, and the attribute "coarsened" of the
/// root: JSON with the source's name, size and shapes, the factor and the program. The same bytes for any number of
/// ranks. The target appears whole or not at all. DataError, ConfigError (on every rank): nothing to average, a factor
/// that does not divide, rows that are missing (of any data set), NaN, a mean that uint16 cannot hold.
CoarseFile coarse_copy(const CoarseCopy& copy, Comm& world);

}  // namespace mrmf
