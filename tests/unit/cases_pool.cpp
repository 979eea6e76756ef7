#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

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
  const auto roots = [&](const std::string& title, const Shape& in, const LayerSpec& windows, Index groups) {
    LayerSpec spec = windows;
    spec.groups = groups;
    spec.root_epsilon = 0.1F;
    cases.push_back({"l2_pool " + title, in, spec});
  };
  roots("1-D, one window", line(2, 4, 4), pool(LayerKind::l2_pool, {1, 1, 4}), 0);
  roots("2-D, overlapping", image(3, 6, 7, 3), pool(LayerKind::l2_pool, {1, 3, 3}, {1, 1, 2}), 0);
  roots("2-D, groups of channels", image(3, 4, 5, 6), pool(LayerKind::l2_pool, {1, 1, 1}), 2);
  roots("3-D, both", volume(2, {5, 4, 6}, 8), pool(LayerKind::l2_pool, {2, 2, 3}), 4);
  // Few positions, and so many that threads share them.
  for (const Shape& shape :
       {line(4, 9, 3), line(3, 1, 5), image(3, 6, 7, 8), volume(2, {9, 8, 7}, 5), line(5, 1500, 9)})
    cases.push_back(
        {"global_average_pool " + to_string(shape), shape, pool(LayerKind::global_average_pool, {1, 1, 1})});
  return cases;
}

LayerCases upsample_cases() {
  LayerCases cases;
  for (const UpsampleKind mode : {UpsampleKind::nearest, UpsampleKind::linear}) {
    const auto add = [&](const Shape& in, const Extent& factor) {
      LayerSpec spec = pool(LayerKind::upsample, factor);
      spec.mode = mode;
      cases.push_back({std::string(mode == UpsampleKind::linear ? "linear " : "nearest ") + to_string(in) + " by " +
                           std::to_string(product(factor)),
                       in, spec});
    };
    add(line(5, 7, 3), {1, 1, 2});
    add(line(4, 6, 8), {1, 1, 3});
    add(line(3, 1, 4), {1, 1, 5});
    add(line(3, 5, 4), {1, 1, 1});
    add(line(3, 2, 1), {1, 1, 4});
    add(image(3, 4, 5, 5), {1, 2, 3});
    add(image(2, 4, 5, 12), {1, 4, 1});
    add(volume(2, {3, 4, 2}, 6), {2, 2, 2});
    add(volume(2, {2, 1, 3}, 3), {3, 2, 4});
  }
  return cases;
}

}  // namespace mrmf::test
