#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

namespace mrmf::test {
namespace {

LayerSpec local(Index units, const Extent& window, const Extent& stride = {1, 1, 1}) {
  LayerSpec spec;
  spec.kind = LayerKind::locally_connected;
  spec.units = units;
  spec.window = window;
  spec.stride = stride;
  return spec;
}

}  // namespace

LayerCases locally_connected_cases() {
  LayerCases cases{
      {"1-D, 3->5, k4", line(5, 11, 3), local(5, {1, 1, 4})},
      {"1-D, 1->1, k3, stride 2, a rest", line(3, 12, 1), local(1, {1, 1, 3}, {1, 1, 2})},
      {"1-D, 4->9, stride above the window leaves gaps", line(6, 13, 4), local(9, {1, 1, 2}, {1, 1, 3})},
      {"1-D, the whole input: one position", line(4, 7, 6), local(30, {1, 1, 7})},
      {"1-D, one row, a long run", line(1, 90, 8), local(6, {1, 1, 70}, {1, 1, 5})},
      {"1-D, k1", line(5, 6, 17), local(7, {1, 1, 1})},
      {"2-D, 3->21, k5x4", image(4, 7, 8, 3), local(21, {1, 5, 4})},
      {"2-D, 16->4, k3x2, stride 2x1, many rows", image(33, 6, 5, 16), local(4, {1, 3, 2}, {1, 2, 1})},
      {"2-D, 5->3, parts of the field", image(65, 9, 8, 5), local(3, {1, 8, 7})},  // 280 floats: two parts
      {"2-D, 2->13, two rows", image(2, 5, 9, 2), local(13, {1, 2, 6}, {1, 3, 2})},
      {"2-D, long kernel rows: positions together", image(5, 12, 30, 40), local(6, {1, 2, 7})},  // 280 floats
      {"2-D, the same, stride 2, a rest of positions", image(19, 9, 75, 37), local(5, {1, 3, 8}, {1, 1, 2})},
      {"3-D, long kernel rows", volume(4, {4, 5, 20}, 36), local(3, {2, 2, 8})},
      {"3-D, one kernel row a plane", volume(4, {3, 65, 11}, 36), local(2, {2, 1, 8})},
      {"2-D, long kernel rows, three lines together, a rest", image(5, 199, 10, 40), local(2, {1, 3, 7})},
      {"2-D, the same, gaps between lines", image(4, 390, 10, 40), local(2, {1, 2, 7}, {1, 3, 1})},
      {"2-D, an axis of one", image(3, 1, 10, 4), local(4, {1, 1, 3})},
      {"3-D, 2->7, k3", volume(3, {4, 5, 6}, 2), local(7, {3, 3, 3})},
      {"3-D, 1->6, k2x3x4, stride 2x1x3", volume(7, {5, 4, 10}, 1), local(6, {2, 3, 4}, {2, 1, 3})},
      {"3-D, the first axis of one", volume(2, {1, 4, 5}, 3), local(5, {1, 2, 3})},
      {"2-D, rows in panels", image(16, 14, 15, 3), local(5, {1, 3, 4})},
      {"2-D, panels, two lines together", image(31, 162, 6, 2), local(7, {1, 3, 3})},
      {"2-D, panels, gaps between lines", image(13, 200, 9, 2), local(3, {1, 2, 4}, {1, 3, 1})},
      {"2-D, panels, stride 2, a rest of positions", image(12, 20, 41, 3), local(14, {1, 4, 5}, {1, 1, 2})},
      {"3-D, panels, many of them", volume(61, {5, 7, 9}, 2), local(6, {2, 3, 3})},
      {"2-D, panels, long kernel rows", image(24, 9, 40, 37), local(4, {1, 2, 8})},
  };
  for (LayerCase& c : cases) c.title = "locally connected " + c.title;
  return cases;
}

// Without the penalty, which is no part of y: what backward gives are then its slopes.
LayerCases rica_cases() {
  const auto rica = [](Index units, const Extent& window, const Extent& stride = {1, 1, 1}) {
    LayerSpec spec = local(units, window, stride);
    spec.kind = LayerKind::rica;
    spec.sparsity = 0;
    return spec;
  };
  LayerSpec own = rica(5, {1, 3, 4}, {1, 2, 2});
  own.decoder = Decoder::own;
  LayerSpec encodes = rica(5, {1, 3, 4}, {1, 2, 2}), encodes_own = own;
  encodes.output = encodes_own.output = RicaOutput::features;
  return {{"rica 2-D, features", image(6, 7, 10, 3), encodes},
          {"rica 2-D, features beside a decoder", image(3, 7, 10, 3), encodes_own},
          {"rica 1-D, 2->6, k5, stride 2, a rest", line(5, 12, 2), rica(6, {1, 1, 5}, {1, 1, 2})},
          {"rica 1-D, gaps between fields", line(3, 11, 3), rica(2, {1, 1, 2}, {1, 1, 3})},
          {"rica 2-D, 3->8, k4, stride 2", image(4, 8, 10, 3), rica(8, {1, 4, 4}, {1, 2, 2})},
          {"rica 2-D, own decoder", image(7, 7, 10, 3), own},
          {"rica 2-D, rows in panels", image(24, 14, 15, 2), rica(8, {1, 4, 4})},
          {"rica 3-D, 1->6, k2x3x2", volume(3, {4, 5, 4}, 1), rica(6, {2, 3, 2}, {1, 2, 1})}};
}

}  // namespace mrmf::test
