// The generic layer test: what must hold for any layer on any backend. A layer gets its tests by a line in a table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/layer.hpp"

namespace mrmf::test {

/// One layer on one input. in.n is the number of rows it is built for; it is called with fewer, too.
struct LayerCase {
  std::string title;
  Shape in;
  LayerSpec spec;
  std::optional<LayerSpec> pool{};  ///< given: the fused convolution + this pooling + ReLU, or see relu
  std::optional<LayerSpec> relu{};  ///< given: the fused batch norm + this activation, and then the pooling if given
};
using LayerCases = std::vector<LayerCase>;

/// Relative distances from the reference. The defaults are those of float32.
///
/// Float sums of up to a few thousand terms against double ones: rounding grows as the root of the number of terms,
/// below 60 * 6e-8 of the norm. A wrong term among a few hundred is 1e-2.
struct Agreement {
  double y = 5e-6, dx = 5e-6;
  double params = 5e-6;  ///< gradients and state
};

enum class Inputs { fractions, whole };

/// How to check a layer on a backend of lower precision than float32.
struct LayerCheck {
  Agreement agreement{};
  int bits = 24;                      ///< of significance that x, dy and parameters have
  Inputs inputs = Inputs::fractions;  ///< whole: small whole numbers, so that every product and sum is exact
  bool slopes = true;                 ///< differences of low precision say nothing
};

/// Null where the backend does not offer the fused layer.
std::unique_ptr<Layer> make_case(Backend& backend, const LayerCase& layer_case);

/// Fails the running doctest case unless, on this backend,
///   * forward and backward write every output (all poisoned with NaN before), nothing outside of their buffers and
///     none of their inputs, and read x and y in backward only if the footprint says so;
///   * y, dx, gradients and state agree with the reference backend, also with fewer rows, with buffers that held
///     another call's results, and in evaluation mode, which leaves the state alone;
///   * dx and the gradients are the slopes of y in random directions;
///   * the same call gives the same bits;
///   * in-place execution, where offered, and a missing dx change nothing else.
void check_layer(Backend& backend, const LayerCase& layer_case, const LayerCheck& check = {});

LayerCases conv_cases();
LayerCases conv_cases_of_large_planes();  ///< whose sums are too long to be exact in whole numbers
LayerCases conv_transpose_cases();
LayerCases locally_connected_cases();
LayerCases rica_cases();
LayerCases pool_cases();  ///< with global average pooling
LayerCases contrast_cases();
LayerCases upsample_cases();
LayerCases batch_norm_cases();
LayerCases group_norm_cases();  ///< with layer norm
LayerCases dense_cases();
LayerCases elementwise_cases();  ///< activations, dropout, flatten
LayerCases conv_pool_relu_cases();
LayerCases norm_relu_pool_cases();

}  // namespace mrmf::test
