// Sizes from files, which may be anything below 2^64, before anything is computed with them.
#pragma once

#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Elements of the largest data set, or of all files together. Bytes of several of them still fit an Index.
constexpr Index kMostElements = Index{1} << 52;
constexpr Index kMostRowElements = Index{1} << 34;  ///< of one row

/// DataError naming the shape when a data set has a size below 0 (2^63 or more in the file) or more elements than
/// these.
void require_countable(const std::vector<Index>& shape, const std::string& what);

/// a * b of numbers of at least 0; the largest Index where that is too large.
Index saturated_product(Index a, Index b);

/// "(96, 64, 3)"
std::string shape_text(const std::vector<Index>& shape);

}  // namespace mrmf
