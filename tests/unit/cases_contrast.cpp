#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

namespace mrmf::test {

LayerCases contrast_cases() {
  LayerCases cases;
  const auto add = [&](const Shape& in, const Extent& window, float floor = 0.01F) {
    LayerSpec spec;
    spec.kind = LayerKind::local_contrast_norm;
    spec.window = window;
    spec.floor = floor;
    cases.push_back({"local contrast norm " + to_string(in) + " window " + std::to_string(product(window)), in, spec});
  };
  add(line(4, 13, 3), {1, 1, 3});
  add(line(3, 4, 5), {1, 1, 9});  // wider than the line
  add(line(5, 9, 1), {1, 1, 5});
  add(line(3, 7, 6), {1, 1, 1});        // over channels alone
  add(line(3, 11, 4), {1, 1, 5}, 100);  // all below the floor: linear
  add(image(3, 8, 7, 21), {1, 5, 5});
  add(image(2, 6, 9, 8), {1, 3, 7});
  add(image(2, 1, 9, 4), {1, 1, 3});
  add(volume(2, {4, 5, 6}, 5), {3, 3, 3});
  add(volume(2, {3, 2, 7}, 2), {5, 1, 3});
  return cases;
}

}  // namespace mrmf::test
