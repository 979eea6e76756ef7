#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {
namespace {

/// Slope 0: ReLU.
LayerSpec relu(float slope = 0) {
  LayerSpec spec;
  spec.kind = slope > 0 ? LayerKind::leaky_relu : LayerKind::relu;
  spec.slope = slope;
  return spec;
}

LayerSpec average_pool(const Extent& window) {
  LayerSpec spec;
  spec.kind = LayerKind::average_pool;
  spec.window = window;
  return spec;
}

}  // namespace

LayerCases norm_relu_pool_cases() {
  LayerSpec own = batch_norm();
  own.momentum = 0.3F;
  own.epsilon = 0.1F;
  const LayerSpec by2 = average_pool({1, 1, 2}), cube = average_pool({2, 2, 2});
  return {
      {"1-D, 30 channels", line(4, 11, 30), batch_norm(), {}, relu()},
      {"1-D, 3 channels, leaky", line(5, 8, 3), batch_norm(), {}, relu(0.3F)},
      {"1-D, pool 2, many rows", line(33, 16, 8), batch_norm(), by2, relu()},
      {"1-D, 181 channels, leaky, pool 2", line(6, 4, 181), batch_norm(), by2, relu(0.01F)},
      {"1-D, 5 channels, pool 4 leaves 3", line(5, 15, 5), own, average_pool({1, 1, 4}), relu()},
      {"2-D, leaky, pool 1x2 leaves 1", image(3, 4, 5, 4), own, average_pool({1, 1, 2}), relu(0.1F)},
      {"3-D, 8 channels, leaky", volume(3, {3, 4, 5}, 8), batch_norm(), {}, relu(0.01F)},
      {"3-D, pool 2", volume(3, {4, 6, 4}, 16), batch_norm(), cube, relu()},
      {"3-D, leaky, pool 2", volume(3, {4, 2, 6}, 32), batch_norm(), cube, relu(0.3F)},
      {"3-D, 7 channels, leaky, pool 2 leaves 1 of each axis", volume(2, {5, 7, 3}, 7), batch_norm(), cube, relu(0.3F)},
      {"3-D, 3 channels, one window", volume(9, {2, 2, 2}, 3), batch_norm(), cube, relu()},
  };
}

}  // namespace mrmf::test
