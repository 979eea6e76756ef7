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
template <typename Element>
void coarsen_row(const Element* fine, const Plan& plan, std::vector<double>& sums, float* coarse) {
  std::fill(sums.begin(), sums.end(), 0.0);
  for (Index d = 0; d < plan.factor[0]; ++d)
    for (Index h = 0; h < plan.factor[1]; ++h) {
      const Element* row = fine + d * plan.plane + h * plan.row;
#pragma omp simd
      for (Index i = 0; i < plan.row; ++i) sums[static_cast<std::size_t>(i)] += static_cast<double>(to_float(row[i]));
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

void coarsen_lines(const StoredSamples& fine, const Extent& factor, Range lines, float* coarse) {
  const Shape small = coarse_shape(fine.sample, factor);
  const Index row = fine.sample.spatial[2] * fine.sample.channels;
  const Plan plan{factor, small.spatial, fine.sample.channels, row, fine.sample.spatial[1] * row};
  const Index per_sample = small.spatial[0] * small.spatial[1];
  std::vector<double> sums(static_cast<std::size_t>(row));
  with_elements(fine.type, fine.data, [&](const auto* from) {
    for (Index i = lines.first; i < lines.first + lines.count; ++i) {
      const Index n = i / per_sample, d = i % per_sample / small.spatial[1], h = i % small.spatial[1];
      const Index at = n * fine.sample.per_sample() + d * factor[0] * plan.plane + h * factor[1] * row;
      coarsen_row(from + at, plan, sums, coarse + (i - lines.first) * small.spatial[2] * small.channels);
    }
  });
}

void coarsen(ConstSpan fine, const Shape& sample, const Extent& factor, Span coarse) {
  const Shape small = coarse_shape(sample, factor);
  const Index samples = static_cast<Index>(fine.size()) / sample.per_sample();
  MRMF_CHECK(static_cast<Index>(fine.size()) == samples * sample.per_sample(), "not whole samples");
  MRMF_CHECK(static_cast<Index>(coarse.size()) == samples * small.per_sample(), "wrong size of the coarse data");
  const Index lines = samples * small.spatial[0] * small.spatial[1], line = small.spatial[2] * small.channels;
  const Index parts = std::min<Index>(lines, 64);  // enough for any number of threads
#pragma omp parallel for schedule(static)
  for (Index part = 0; part < parts; ++part) {
    const Range mine = piece(lines, part, parts);
    coarsen_lines({ElementType::float32, sample, fine.data()}, factor, mine, coarse.data() + mine.first * line);
  }
}

}  // namespace mrmf
