#include "tests/unit/backends.hpp"
#include "tests/unit/check_layer.hpp"

namespace mrmf::test {
namespace {

LayerSpec norm(float momentum = 0.1F, float epsilon = 1e-5F) {
  LayerSpec spec;
  spec.kind = LayerKind::batch_norm;
  spec.momentum = momentum;
  spec.epsilon = epsilon;
  return spec;
}

}  // namespace

LayerCases batch_norm_cases() {
  return {
      {"flat, 30 features", flat(9, 30), norm()},
      {"flat, odd number of features", flat(20, 181), norm()},
      {"flat, one feature", flat(8, 1), norm()},
      {"flat, many rows", flat(300, 7), norm()},
      {"1-D, 30 channels", line(4, 11, 30), norm()},
      {"1-D, 3 channels, momentum 1", line(5, 8, 3), norm(1.0F)},
      {"2-D, 4 channels, large epsilon", image(3, 5, 4, 4), norm(0.3F, 0.1F)},
      {"3-D, 8 channels", volume(3, {3, 4, 5}, 8), norm(0.01F)},
  };
}

}  // namespace mrmf::test
