// The generic layer test: what must hold for any layer on any backend. A layer gets its tests by a line in a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/layers.hpp"

namespace mrmf::test {

/// One layer on one input. in.n is the number of rows it is built for; it is called with fewer, too.
struct LayerCase {
  std::string title;
  Shape in;
  LayerSpec spec;
  std::optional<LayerSpec> pool{};  ///< given: the fused convolution + this pooling + ReLU
};
using LayerCases = std::vector<LayerCase>;

/// Null where the backend does not offer the fused layer.
std::unique_ptr<Layer> make_case(Backend& backend, const LayerCase& layer_case);

/// Fails the running doctest case unless, on this backend,
///   * forward and backward write every output (all poisoned with NaN before), nothing outside of their buffers and
///     none of their inputs, and read y in backward only if the footprint says so;
///   * y, dx, gradients and state agree with the reference backend, also with fewer rows, with buffers that held
///     another call's results, and in evaluation mode, which leaves the state alone;
///   * dx and the gradients are the slopes of y in random directions;
///   * in-place execution, where offered, and a missing dx change nothing else.
void check_layer(Backend& backend, const LayerCase& layer_case);

LayerCases conv_cases();
LayerCases pool_cases();
LayerCases batch_norm_cases();
LayerCases dense_cases();
LayerCases elementwise_cases();  ///< activations, dropout, flatten
LayerCases conv_pool_relu_cases();

}  // namespace mrmf::test
