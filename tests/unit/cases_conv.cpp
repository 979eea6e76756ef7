#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {
namespace {

LayerSpec same(LayerSpec spec) {
  spec.same_padding = true;
  return spec;
}

LayerSpec dilated(LayerSpec spec, const Extent& dilation) {
  spec.dilation = dilation;
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
      // From few channels to 13 to 16 (in bf16 9 to 16): CUDA has a kernel of its own, with tiles of 4 x 8 x 16.
      {"3-D, 4->16, same, k3, several tiles", volume(2, {6, 10, 21}, 4), same(conv(16, {3, 3, 3}))},
      {"3-D, 1->9, k3", volume(3, {5, 11, 18}, 1), conv(9, {3, 3, 3})},
      {"3-D, 1->13, k3", volume(3, {5, 11, 18}, 1), conv(13, {3, 3, 3})},
      {"3-D, 3->15, zeros differ per side", volume(2, {4, 3, 17}, 3),
       padded(conv(15, {3, 3, 3}), {0, 1, 2}, {2, 1, 0})},
      {"3-D, 3->12, zeros differ per side", volume(2, {4, 3, 17}, 3),
       padded(conv(12, {3, 3, 3}), {0, 1, 2}, {2, 1, 0})},
      {"3-D, 7->16, same, k3", volume(1, {3, 4, 5}, 7), same(conv(16, {3, 3, 3}))},
      {"3-D, 30->8, k3", volume(2, {4, 5, 3}, 30), conv(8, {3, 3, 3})},
      // At most 16 output positions in all rows: the weights are read where they lie.
      {"3-D, 70->30, same, one position", volume(5, {1, 1, 1}, 70), same(conv(30, {3, 3, 3}))},
      {"3-D, 8->3, same, 8 positions", volume(2, {2, 2, 2}, 8), same(conv(3, {3, 3, 3}))},
      {"3-D, 4->8, stride and zeros, few positions", volume(3, {3, 4, 3}, 4),
       padded(conv(8, {3, 2, 3}, {2, 3, 2}), {1, 0, 1}, {0, 1, 0})},
      {"2-D, 130->4, taps apart, few positions", image(2, 4, 3, 130), dilated(same(conv(4, {1, 3, 3})), {1, 2, 1})},
      // No more positions than output channels: below AVX-512 the weight gradient is a product for every tap.
      {"3-D, 20->70, same, many rows of 8 positions", volume(9, {2, 2, 2}, 20), same(conv(70, {3, 3, 3}))},
      {"3-D, 64->70, same, k1x1x2, rows in pieces", volume(130, {2, 2, 2}, 64), same(conv(70, {1, 1, 2}))},
      {"2-D, 7->30, stride and zeros, a tap on zeros alone", image(5, 5, 4, 7),
       padded(conv(30, {1, 3, 4}, {1, 2, 3}), {0, 2, 0}, {0, 1, 3})},
      {"1-D, 12->90, taps apart, some on zeros alone", line(7, 6, 12), same(dilated(conv(90, {1, 1, 5}), {1, 1, 4}))},
      // Windows that do not overlap, as a stem has.
      {"1-D, 3->6, k2, stride 2, a rest", line(5, 13, 3), conv(6, {1, 1, 2}, {1, 1, 2})},
      {"2-D, 3->12, k2, stride 2, a rest", image(3, 7, 9, 3), conv(12, {1, 2, 2}, {1, 2, 2})},
      {"2-D, 3->10, k1x4, stride 1x4", image(3, 4, 12, 3), conv(10, {1, 1, 4}, {1, 1, 4})},
      {"3-D, 4->32, k2, stride 2, a rest", volume(2, {5, 4, 7}, 4), conv(32, {2, 2, 2}, {2, 2, 2})},
      // Planes of 64 positions and more, whole vectors of output channels: the direct kernels.
      {"3-D, 4->16, same, k3, planes of 8x9", volume(3, {3, 8, 9}, 4), same(conv(16, {3, 3, 3}))},
      {"3-D, 5->24, k2x3x2, zeros differ per side", volume(2, {4, 9, 10}, 5),
       padded(conv(24, {2, 3, 2}), {1, 2, 0}, {0, 1, 1})},
      {"3-D, 16->40, k3, no zeros, two planes", volume(2, {4, 10, 13}, 16), conv(40, {3, 3, 3})},
      {"3-D, one plane, k3, same", volume(3, {1, 8, 8}, 3), same(conv(8, {3, 3, 3}))},
      {"2-D, 8->16, k3x5, zeros before only", image(3, 11, 17, 8), padded(conv(16, {1, 3, 5}), {0, 2, 4}, {0, 0, 0})},
      {"2-D, 4->16, same, k3, tall and narrow", image(2, 133, 7, 4), same(conv(16, {1, 3, 3}))},
      {"2-D, 16->32, same, k3, small planes of many rows", image(9, 8, 8, 16), same(conv(32, {1, 3, 3}))},
      {"3-D, 12->24, k3x2x3, zeros differ per side", volume(2, {4, 34, 6}, 12),
       padded(conv(24, {3, 2, 3}), {1, 0, 2}, {0, 1, 0})},
      {"1-D, 6->8, k4, long", line(3, 80, 6), conv(8, {1, 1, 4})},
      // Dilation, also where the direct kernels would serve without it, and with taps that lie in the padding alone.
      {"1-D, 3->30, k4, dilation 3", line(5, 41, 3), dilated(conv(30, {1, 1, 4}), {1, 1, 3})},
      {"1-D, same, k3, dilation 2", line(5, 10, 4), same(dilated(conv(8, {1, 1, 3}), {1, 1, 2}))},
      {"1-D, dilation 4, stride 2, zeros differ per side", line(4, 13, 3),
       padded(dilated(conv(4, {1, 1, 3}, {1, 1, 2}), {1, 1, 4}), {0, 0, 7}, {0, 0, 3})},
      {"2-D, 4->16, same, k3, dilation 2x3", image(3, 9, 11, 4), same(dilated(conv(16, {1, 3, 3}), {1, 2, 3}))},
      {"3-D, 4->16, same, k3, dilation 2", volume(2, {5, 8, 9}, 4), same(dilated(conv(16, {3, 3, 3}), {2, 2, 2}))},
      {"3-D, 3->8, k2x3x1, dilation 3x1x2 of which one tap has none", volume(2, {6, 5, 4}, 3),
       dilated(conv(8, {2, 3, 1}), {3, 1, 2})},
  };
}

// Larger planes than the L2 cache has room for are convolved in bands of rows.
LayerCases conv_cases_of_large_planes() {
  return {
      {"3-D, 16->16, same, k3, bands of rows", volume(1, {3, 64, 32}, 16), same(conv(16, {3, 3, 3}))},
      {"2-D, 16->16, zeros differ per side, bands of rows", image(1, 99, 72, 16),
       padded(conv(16, {1, 3, 3}), {0, 2, 1}, {0, 0, 2})},
  };
}

LayerCases conv_transpose_cases() {
  const auto transposed = [](LayerSpec spec) {
    spec.kind = LayerKind::conv_transpose;
    return spec;
  };
  LayerCases cases{
      {"1-D, 3->8, k4", line(5, 11, 3), conv(8, {1, 1, 4})},
      {"1-D, 8->3, k2, stride 2", line(6, 13, 8), conv(3, {1, 1, 2}, {1, 1, 2})},
      {"1-D, 4->4, k3, stride 2, one position left out before", line(4, 9, 4),
       padded(conv(4, {1, 1, 3}, {1, 1, 2}), {0, 0, 1}, {0, 0, 0})},
      {"1-D, 4->6, k2, stride 3 leaves gaps", line(3, 7, 4), conv(6, {1, 1, 2}, {1, 1, 3})},
      {"1-D, same, k2, stride 3 leaves gaps", line(3, 7, 4), same(conv(6, {1, 1, 2}, {1, 1, 3}))},
      {"1-D, 4->3, k3, dilation 2, stride 2", line(3, 7, 4), dilated(conv(3, {1, 1, 3}, {1, 1, 2}), {1, 1, 2})},
      {"2-D, 8->4, same, k4, stride 2", image(3, 5, 6, 8), same(conv(4, {1, 4, 4}, {1, 2, 2}))},
      {"2-D, 3->5, k3x2, stride 1x2", image(4, 6, 5, 3), conv(5, {1, 3, 2}, {1, 1, 2})},
      {"3-D, 8->4, k2, stride 2", volume(2, {3, 4, 5}, 8), conv(4, {2, 2, 2}, {2, 2, 2})},
      {"3-D, 16->8, same, k3", volume(2, {3, 8, 9}, 16), same(conv(8, {3, 3, 3}))},
      {"3-D, one row", volume(1, {2, 3, 2}, 5), conv(3, {3, 3, 3}, {2, 2, 2})},
  };
  for (LayerCase& c : cases) c.title = "transposed " + c.title, c.spec = transposed(c.spec);
  return cases;
}

}  // namespace mrmf::test
