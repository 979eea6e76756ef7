#include "tests/unit/backends.hpp"
#include "tests/unit/check_layer.hpp"

namespace mrmf::test {
namespace {

LayerSpec conv(Index units, const Extent& window, const Extent& stride = {0, 0, 0}) {
  LayerSpec spec;
  spec.kind = LayerKind::conv;
  spec.units = units;
  spec.window = window;
  spec.stride = stride;
  return spec;
}

LayerSpec same(LayerSpec spec) {
  spec.same_padding = true;
  return spec;
}

LayerSpec padded(LayerSpec spec, const Extent& before, const Extent& after) {
  spec.pad_before = before;
  spec.pad_after = after;
  return spec;
}

}  // namespace

LayerCases conv_cases() {
  return {
      {"1-D, 3->30, k4", line(5, 41, 3), conv(30, {1, 1, 4})},
      {"1-D, 30->90, k4, many rows", line(33, 17, 30), conv(90, {1, 1, 4})},
      {"1-D, 90->8, k3", line(4, 9, 90), conv(8, {1, 1, 3})},
      {"1-D, 1->4, k3, stride 2", line(3, 12, 1), conv(4, {1, 1, 3}, {1, 1, 2})},
      {"1-D, 8->3, stride 3 leaves a rest", line(6, 13, 8), conv(3, {1, 1, 4}, {1, 1, 3})},
      {"1-D, kernel as long as the input", line(5, 7, 4), conv(8, {1, 1, 7})},
      {"1-D, 1x1", line(5, 11, 4), conv(3, {1, 1, 1})},
      {"1-D, one row", line(1, 10, 3), conv(4, {1, 1, 3})},
      {"1-D, same, odd kernel", line(5, 10, 3), same(conv(8, {1, 1, 5}))},
      {"1-D, same, even kernel: one more after", line(5, 10, 3), same(conv(4, {1, 1, 4}))},
      {"1-D, same, stride 2, even length: none before", line(5, 10, 4), same(conv(8, {1, 1, 3}, {1, 1, 2}))},
      {"1-D, same, stride 3", line(4, 11, 1), same(conv(3, {1, 1, 4}, {1, 1, 3}))},
      {"1-D, same, kernel longer than the input", line(4, 2, 4), same(conv(4, {1, 1, 3}))},
      {"1-D, zeros before only", line(5, 10, 3), padded(conv(8, {1, 1, 4}), {0, 0, 3}, {0, 0, 0})},
      {"1-D, 1 before, 2 after, stride 2", line(4, 9, 4), padded(conv(30, {1, 1, 3}, {1, 1, 2}), {0, 0, 1}, {0, 0, 2})},
      {"2-D, zeros differ per side", image(3, 5, 6, 3), padded(conv(8, {1, 3, 4}), {0, 1, 3}, {0, 2, 0})},
      {"3-D, zeros differ per side", volume(2, {4, 3, 5}, 4), padded(conv(8, {3, 3, 3}), {0, 1, 2}, {2, 1, 0})},
      {"2-D, 3->4, k3x2, stride 1x2", image(4, 6, 9, 3), conv(4, {1, 3, 2}, {1, 1, 2})},
      {"2-D, 4->8, same, k2x4", image(5, 5, 7, 4), same(conv(8, {1, 2, 4}))},
      {"2-D, 8->30, same, stride 2", image(3, 8, 7, 8), same(conv(30, {1, 3, 3}, {1, 2, 2}))},
      {"3-D, 4->8, same, k3", volume(3, {5, 4, 6}, 4), same(conv(8, {3, 3, 3}))},
      {"3-D, 1->3, k2x3x4, stride 2x1x3", volume(3, {6, 5, 10}, 1), conv(3, {2, 3, 4}, {2, 1, 3})},
      {"3-D, 8->4, same, k2", volume(4, {4, 3, 4}, 8), same(conv(4, {2, 2, 2}))},
      {"3-D, 30->8, k3", volume(2, {4, 5, 3}, 30), conv(8, {3, 3, 3})},
  };
}

}  // namespace mrmf::test
