#include "io/coarsen/coarsen.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace mrmf {
namespace {

/// Geometry of one sample, in elements.
struct BlockGeometry {
  Extent factor, out;
  Index channels, row, plane;  ///< fine elements from one row and plane to the next
};

/// The mean of what is there of the block that begins at `block`; NaN where nothing is.
template <typename Element>
float mean_of_present(const Element* block, const BlockGeometry& blocks) {
  double sum = 0;
  Index count = 0;
  for (Index d = 0; d < blocks.factor[0]; ++d)
    for (Index h = 0; h < blocks.factor[1]; ++h)
      for (Index w = 0; w < blocks.factor[2]; ++w) {
        const auto value =
            static_cast<double>(to_float(block[d * blocks.plane + h * blocks.row + w * blocks.channels]));
        if (std::isnan(value)) continue;
        sum += value;
        ++count;
      }
  return count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : std::numeric_limits<float>::quiet_NaN();
}

/// One coarse row. Adds up the fine rows in `sums`, one whole row after another, so that the loop is long and
/// vectorises; then adds neighbours along the row.
template <typename Element>
void coarsen_row(const Element* fine, const BlockGeometry& blocks, std::vector<double>& sums, float* coarse) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for (Index d = 0; d < blocks.factor[0]; ++d)
    for (Index h = 0; h < blocks.factor[1]; ++h) {
      const Element* row = fine + d * blocks.plane + h * blocks.row;
#pragma omp simd
      for (Index i = 0; i < blocks.row; ++i) sums[static_cast<std::size_t>(i)] += static_cast<double>(to_float(row[i]));
    }
  const double scale = 1.0 / static_cast<double>(product(blocks.factor));
  for (Index w = 0; w < blocks.out[2]; ++w)
    for (Index c = 0; c < blocks.channels; ++c) {
      const double* first = sums.data() + w * blocks.factor[2] * blocks.channels + c;
      double sum = 0;
      for (Index k = 0; k < blocks.factor[2]; ++k) sum += first[k * blocks.channels];
      float& mean = coarse[w * blocks.channels + c];
      mean = static_cast<float>(sum * scale);
      if (std::isnan(mean)) mean = mean_of_present(fine + w * blocks.factor[2] * blocks.channels + c, blocks);
    }
}

}  // namespace

Shape coarse_shape(const Shape& sample, const Extent& factor, const std::string& what) {
  Shape result = sample;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Index size = sample.spatial[axis];
    if (factor[axis] < 1 || size % factor[axis] != 0)
      throw ConfigError("resolution " + std::to_string(factor[axis]) + " does not divide an axis of " +
                        std::to_string(size) + " (" + what + " are " + to_string(sample) + "); use a divisor of " +
                        std::to_string(size));
    result.spatial[axis] = size / factor[axis];
  }
  return result;
}

void coarsen_lines(const StoredSamples& fine, const Extent& factor, Range lines, float* coarse) {
  const Shape small = coarse_shape(fine.sample, factor);
  const Index row = fine.sample.spatial[2] * fine.sample.channels;
  const BlockGeometry blocks{factor, small.spatial, fine.sample.channels, row, fine.sample.spatial[1] * row};
  const Index per_sample = small.spatial[0] * small.spatial[1];
  std::vector<double> sums(static_cast<std::size_t>(row));
  with_elements(fine.type, fine.data, [&](const auto* from) {
    for (Index i = lines.first; i < lines.first + lines.count; ++i) {
      const Index n = i / per_sample, d = i % per_sample / small.spatial[1], h = i % small.spatial[1];
      const Index at = n * fine.sample.per_sample() + d * factor[0] * blocks.plane + h * factor[1] * row;
      coarsen_row(from + at, blocks, sums, coarse + (i - lines.first) * small.spatial[2] * small.channels);
    }
  });
}

}  // namespace mrmf
