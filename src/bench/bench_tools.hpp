// What the benchmarks share.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// The middle value, the upper one of two; `values` is not empty.
double median(std::vector<double> values);

/// Standard normal values, the same for the same seed; they repeat after a million.
void fill_normal(Span values, std::uint64_t seed);

}  // namespace mrmf
