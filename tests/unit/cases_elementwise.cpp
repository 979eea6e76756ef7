#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

namespace mrmf::test {

LayerCases elementwise_cases() {
  LayerCases cases;
  for (const LayerKind kind : {LayerKind::relu, LayerKind::leaky_relu, LayerKind::tanh, LayerKind::gelu,
                               LayerKind::silu, LayerKind::softplus, LayerKind::sigmoid, LayerKind::dropout}) {
    LayerSpec spec;
    spec.kind = kind;
    spec.slope = 0.125F;
    spec.scale = 1.25F;
    spec.rate = 0.3F;
    for (const Shape& shape : {flat(5, 30), flat(3, 7), line(4, 9, 3), volume(2, {3, 4, 5}, 4)})
      cases.push_back({to_string(kind) + " " + to_string(shape), shape, spec});
  }
  LayerSpec flatten;
  flatten.kind = LayerKind::flatten;
  cases.push_back({"flatten 1-D", line(4, 24, 5), flatten});
  cases.push_back({"flatten 3-D", volume(3, {2, 3, 4}, 5), flatten});
  return cases;
}

}  // namespace mrmf::test
