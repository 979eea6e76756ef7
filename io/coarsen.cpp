#include "io/coarsen.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace mrmf {
namespace {

/// Geometry of one sample, in elements.
struct Plan {
  Extent factor, out;
  Index channels, row, plane;  ///< fine elements from one row and plane to the next
};

/// One coarse row: adds up the fine rows it covers in `sums` (stream by stream, so that the loop over a row is long and
/// vectorises), then neighbours along the row.
void coarsen_row(const float* fine, const Plan& plan, std::vector<double>& sums, float* coarse) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for (Index d = 0; d < plan.factor[0]; ++d)
    for (Index h = 0; h < plan.factor[1]; ++h) {
      const float* row = fine + d * plan.plane + h * plan.row;
      for (Index i = 0; i < plan.row; ++i) sums[static_cast<std::size_t>(i)] += static_cast<double>(row[i]);
    }
  const double scale = 1.0 / static_cast<double>(product(plan.factor));
  for (Index w = 0; w < plan.out[2]; ++w)
    for (Index c = 0; c < plan.channels; ++c) {
      const double* first = sums.data() + w * plan.factor[2] * plan.channels + c;
      double sum = 0;
      for (Index k = 0; k < plan.factor[2]; ++k) sum += first[k * plan.channels];
      coarse[w * plan.channels + c] = static_cast<float>(sum * scale);
    }
}

}  // namespace

Shape coarse_shape(const Shape& sample, const Extent& factor) {
  Shape result = sample;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Index size = sample.spatial[axis];
    if (factor[axis] < 1 || size % factor[axis] != 0)
      throw ConfigError("resolution " + std::to_string(factor[axis]) + " does not divide an axis of " +
                        std::to_string(size) + " (samples are " + to_string(sample) + "); use a divisor of " +
                        std::to_string(size));
    result.spatial[axis] = size / factor[axis];
  }
  return result;
}

void coarsen(ConstSpan fine, const Shape& sample, const Extent& factor, Span coarse) {
  const Shape small = coarse_shape(sample, factor);
  const Index samples = static_cast<Index>(fine.size()) / sample.per_sample();
  MRMF_CHECK(static_cast<Index>(fine.size()) == samples * sample.per_sample(), "not whole samples");
  MRMF_CHECK(static_cast<Index>(coarse.size()) == samples * small.per_sample(), "wrong size of the coarse data");

  const Index row = sample.spatial[2] * sample.channels;
  const Plan plan{factor, small.spatial, sample.channels, row, sample.spatial[1] * row};
  const Index rows = small.spatial[0] * small.spatial[1], coarse_row = small.spatial[2] * small.channels;
#pragma omp parallel
  {
    std::vector<double> sums(static_cast<std::size_t>(row));
#pragma omp for schedule(static)
    for (Index i = 0; i < samples * rows; ++i) {
      const Index n = i / rows, d = i % rows / small.spatial[1], h = i % small.spatial[1];
      const Index at = n * sample.per_sample() + d * factor[0] * plan.plane + h * factor[1] * row;
      coarsen_row(fine.data() + at, plan, sums, coarse.data() + i * coarse_row);
    }
  }
}

}  // namespace mrmf
