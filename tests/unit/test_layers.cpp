// The generic layer test over the case tables, on every backend.
#include <doctest/doctest.h>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

namespace mrmf::test {
namespace {

void check_all(const LayerCases& cases) {
  for (const auto& backend : backends())
    for (const LayerCase& layer_case : cases) check_layer(*backend, layer_case);
}

}  // namespace

TEST_CASE("layers: convolution") { check_all(conv_cases()); }
TEST_CASE("layers: convolution of large planes") { check_all(conv_cases_of_large_planes()); }
TEST_CASE("layers: transposed convolution") { check_all(conv_transpose_cases()); }
TEST_CASE("layers: transposed convolution of so many positions that threads share them") {
  LayerSpec spec;
  spec.kind = LayerKind::conv_transpose;
  spec.units = 16;
  spec.window = spec.stride = {2, 2, 2};
  check_all({{"transposed 3-D, 4->16, k2, stride 2", volume(2, {11, 12, 9}, 4), spec}});
}
TEST_CASE("layers: locally connected") { check_all(locally_connected_cases()); }
TEST_CASE("layers: reconstruction ICA") { check_all(rica_cases()); }
TEST_CASE("layers: pooling") { check_all(pool_cases()); }
TEST_CASE("layers: local contrast normalisation") { check_all(contrast_cases()); }
TEST_CASE("layers: upsampling") { check_all(upsample_cases()); }
TEST_CASE("layers: batch norm") { check_all(batch_norm_cases()); }
TEST_CASE("layers: group norm and layer norm") { check_all(group_norm_cases()); }
TEST_CASE("layers: dense") { check_all(dense_cases()); }
TEST_CASE("layers: activations, dropout, flatten") { check_all(elementwise_cases()); }
TEST_CASE("layers: fused convolution, pooling and ReLU") { check_all(conv_pool_relu_cases()); }
TEST_CASE("layers: fused batch norm, ReLU and pooling") { check_all(norm_relu_pool_cases()); }

TEST_CASE("layer facts: the fused layer is offered for the first convolution of the Neuron Inverter network") {
  for (const auto& backend : backends()) {
    INFO(backend->name());
    CHECK(make_case(*backend, conv_pool_relu_cases().front()) != nullptr);
  }
}

}  // namespace mrmf::test
