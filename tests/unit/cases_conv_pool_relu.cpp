#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {
namespace {

LayerSpec max_pool(const Extent& window) {
  LayerSpec spec;
  spec.kind = LayerKind::max_pool;
  spec.window = window;
  return spec;
}

}  // namespace

LayerCases conv_pool_relu_cases() {
  const LayerSpec by4 = max_pool({1, 1, 4});
  LayerSpec padded = conv(8, {1, 1, 4});
  padded.pad_after = {0, 0, 3};
  LayerSpec below = conv(8, {1, 3, 3});
  below.pad_after = {0, 2, 1};
  return {
      {"1-D, 3->30, k4, pool 4", line(5, 43, 3), conv(30, {1, 1, 4}), by4},
      {"1-D, 3->30, k4, pool 4, many rows", line(37, 100, 3), conv(30, {1, 1, 4}), by4},
      {"1-D, 3->30, k4, pool 4, no rest", line(3, 19, 3), conv(30, {1, 1, 4}), by4},
      {"1-D, 3->32, k4, pool 4", line(4, 35, 3), conv(32, {1, 1, 4}), by4},
      {"1-D, 3->8, k4, pool 2", line(4, 35, 3), conv(8, {1, 1, 4}), max_pool({1, 1, 2})},
      {"1-D, 1->5, k3, pool 4", line(4, 30, 1), conv(5, {1, 1, 3}), by4},
      {"1-D, 1->5, k3, pool 4, a rest of one", line(3, 31, 1), conv(5, {1, 1, 3}), by4},
      {"1-D, 1->2, k3, pool 4, no rest", line(4, 34, 1), conv(2, {1, 1, 3}), by4},
      {"1-D, 3->100, k4, pool 4: several blocks of channels", line(3, 27, 3), conv(100, {1, 1, 4}), by4},
      {"1-D, 3->104, k3, pool 2: and odd runs", line(3, 15, 3), conv(104, {1, 1, 3}), max_pool({1, 1, 2})},
      {"2-D, 1->200, k3x3, pool 2x2: the same in lines", image(2, 8, 8, 1), conv(200, {1, 3, 3}), max_pool({1, 2, 2})},
      {"1-D, 30->90, k4, pool 4: Winograd's", line(3, 39, 30), conv(90, {1, 1, 4}), by4},
      {"1-D, 17->33, k3, pool 4: Winograd's, many windows", line(3, 130, 17), conv(33, {1, 1, 3}), by4},
      {"1-D, 5->8, same k3, pool 4: Winograd's", line(4, 62, 5), conv(8, {1, 1, 3}, {0, 0, 0}, true), by4},
      {"1-D, 2->9, k3, pool 4: Winograd's of few channels", line(3, 300, 2), conv(9, {1, 1, 3}), by4},
      {"1-D, 4->20, k4, pool 4: the same, no rest", line(3, 35, 4), conv(20, {1, 1, 4}), by4},
      {"1-D, 15->8, k4, pool 2: channels filled up", line(3, 20, 15), conv(8, {1, 1, 4}), max_pool({1, 1, 2})},
      {"2-D, 15->8, same k3x3, pool 2x2: channels filled up", image(3, 9, 8, 15), conv(8, {1, 3, 3}, {0, 0, 0}, true),
       max_pool({1, 2, 2})},
      {"1-D, 12->8, k1, pool 4: more inputs than two registers hold", line(3, 13, 12), conv(8, {1, 1, 1}), by4},
      {"1-D, 4->16, k5, pool 3", line(4, 32, 4), conv(16, {1, 1, 5}), max_pool({1, 1, 3})},
      {"1-D, same padding", line(4, 17, 3), conv(30, {1, 1, 4}, {0, 0, 0}, true), by4},
      {"1-D, zeros after only", line(4, 17, 3), padded, by4},
      {"2-D, 3->8, k3x3, pool 2x2", image(3, 9, 8, 3), conv(8, {1, 3, 3}), max_pool({1, 2, 2})},
      {"2-D, 1->16, k3x3, pool 2x2", image(5, 28, 28, 1), conv(16, {1, 3, 3}), max_pool({1, 2, 2})},
      {"2-D, 16->32, k3x3, pool 2x2", image(3, 13, 13, 16), conv(32, {1, 3, 3}), max_pool({1, 2, 2})},
      {"2-D, 3->20, k2x5, pool 3x2", image(3, 12, 19, 3), conv(20, {1, 2, 5}), max_pool({1, 3, 2})},
      {"2-D, 5->7, k3x3, pool 3x3", image(2, 11, 14, 5), conv(7, {1, 3, 3}), max_pool({1, 3, 3})},
      {"2-D, 3->8, k1x1, pool 1x4", image(2, 5, 9, 3), conv(8, {1, 1, 1}), max_pool({1, 1, 4})},
      {"2-D, 4->8, same k3x3, pool 2x2", image(3, 9, 8, 4), conv(8, {1, 3, 3}, {0, 0, 0}, true), max_pool({1, 2, 2})},
      {"2-D, 1->8, same k3x3, pool 2x2", image(3, 8, 9, 1), conv(8, {1, 3, 3}, {0, 0, 0}, true), max_pool({1, 2, 2})},
      {"2-D, 3->8, zeros after only", image(3, 8, 9, 3), below, max_pool({1, 2, 2})},
      {"3-D, 4->8, same k3, pool 2", volume(2, {4, 6, 5}, 4), conv(8, {3, 3, 3}, {0, 0, 0}, true), max_pool({2, 2, 2})},
  };
}

}  // namespace mrmf::test
