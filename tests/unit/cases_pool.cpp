#include "tests/unit/backends.hpp"
#include "tests/unit/check_layer.hpp"

namespace mrmf::test {
namespace {

LayerSpec pool(LayerKind kind, const Extent& window, const Extent& stride = {0, 0, 0}) {
  LayerSpec spec;
  spec.kind = kind;
  spec.window = window;
  spec.stride = stride;
  return spec;
}

}  // namespace

LayerCases pool_cases() {
  LayerCases cases;
  for (const LayerKind kind : {LayerKind::max_pool, LayerKind::average_pool}) {
    const auto add = [&](const std::string& title, const Shape& in, const LayerSpec& spec) {
      cases.push_back({to_string(kind) + " " + title, in, spec});
    };
    add("1-D, window 4, rest of 3", line(5, 39, 30), pool(kind, {1, 1, 4}));
    add("1-D, window 4, many rows", line(40, 16, 90), pool(kind, {1, 1, 4}));
    add("1-D, one channel", line(3, 10, 1), pool(kind, {1, 1, 2}));
    add("1-D, overlapping", line(4, 11, 3), pool(kind, {1, 1, 3}, {1, 1, 1}));
    add("1-D, with gaps", line(4, 11, 8), pool(kind, {1, 1, 2}, {1, 1, 3}));
    add("1-D, one window", line(2, 4, 4), pool(kind, {1, 1, 4}));
    add("2-D, 2x3, rests", image(4, 7, 8, 4), pool(kind, {1, 2, 3}));
    add("2-D, overlapping", image(3, 6, 7, 3), pool(kind, {1, 3, 3}, {1, 2, 2}));
    add("3-D, 2x2x2", volume(3, {4, 6, 4}, 8), pool(kind, {2, 2, 2}));
    add("3-D, rests, window differs from stride", volume(2, {5, 7, 6}, 3), pool(kind, {2, 3, 2}, {1, 2, 3}));
    add("3-D, 256 positions", volume(2, {4, 8, 8}, 8), pool(kind, {4, 8, 8}));
  }
  return cases;
}

}  // namespace mrmf::test
