#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_specs.hpp"

namespace mrmf::test {

LayerCases batch_norm_cases() {
  return {
      {"flat, 30 features", flat(9, 30), batch_norm()},
      {"flat, odd number of features", flat(20, 181), batch_norm()},
      {"flat, one feature", flat(8, 1), batch_norm()},
      {"flat, many rows", flat(300, 7), batch_norm()},
      {"1-D, 30 channels", line(4, 11, 30), batch_norm()},
      {"1-D, 3 channels, momentum 1", line(5, 8, 3), batch_norm(1.0F)},
      {"2-D, 4 channels, large epsilon", image(3, 5, 4, 4), batch_norm(0.3F, 0.1F)},
      {"3-D, 8 channels", volume(3, {3, 4, 5}, 8), batch_norm(0.01F)},
  };
}

LayerCases group_norm_cases() {
  LayerCases cases;
  const auto add = [&](LayerKind kind, Index groups, const Shape& in, float epsilon = 1e-5F) {
    LayerSpec spec = batch_norm(0.1F, epsilon);
    spec.kind = kind;
    spec.groups = groups;
    const std::string title = to_string(kind) + (groups > 0 ? " g" + std::to_string(groups) : "");
    cases.push_back({title + " " + to_string(in), in, spec});
    LayerSpec activation;
    activation.kind = groups % 2 == 0 ? LayerKind::relu : LayerKind::leaky_relu;
    activation.slope = 0.3F;
    cases.push_back({title + " " + to_string(in) + ", " + to_string(activation.kind), in, spec, {}, activation});
  };
  add(LayerKind::group_norm, 2, flat(5, 30));
  add(LayerKind::group_norm, 3, line(4, 11, 30));  // groups that no vector of channels ends with
  add(LayerKind::group_norm, 8, line(3, 20, 8));
  add(LayerKind::group_norm, 1, image(3, 5, 4, 4), 0.1F);
  add(LayerKind::group_norm, 5, volume(2, {3, 4, 5}, 35));
  add(LayerKind::group_norm, 4, volume(2, {13, 15, 17}, 16));  // several pieces
  add(LayerKind::group_norm, 2, line(300, 5, 4));              // many samples
  add(LayerKind::layer_norm, 0, flat(9, 181));
  add(LayerKind::layer_norm, 0, flat(3, 1100));
  add(LayerKind::layer_norm, 0, line(5, 8, 3));
  add(LayerKind::layer_norm, 0, volume(3, {3, 4, 5}, 8));
  return cases;
}

}  // namespace mrmf::test
