// What a convolution of known values (pattern.hpp) gives, element by element, in double on the host.
#pragma once

#include "kernels/cuda/conv_plan.hpp"

namespace mrmf::cuda {

inline constexpr std::uint32_t first_seed = 1, second_seed = 2, bias_seed = 3;

/// Elements of a pass's inputs (x and w; dy and w; x and dy) and of its result.
struct ConvSizes {
  explicit ConvSizes(const ConvProblem& problem);
  Index first = 0, second = 0, result = 0;
};

/// Element i of the result for inputs of pattern_value(first_seed, .) and pattern_value(second_seed, .).
double expected_element(const ConvProblem& problem, Index i);

}  // namespace mrmf::cuda
