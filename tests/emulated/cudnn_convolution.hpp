#pragma once
#include <vector>

#include "tests/emulated/cudnn_model.hpp"

namespace mrmf::emulated::dnn {

/// Tensor values as (n, spatial..., c): filters as (out, spatial..., in).
using Values = std::vector<double>;

/// The three convolutions; `x`, `b` as in Operation. Shapes come from the graph's tensors.
Values convolve(const Graph& graph, const Operation& operation, const Values& x, const Values& b);

}  // namespace mrmf::emulated::dnn
