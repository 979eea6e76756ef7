#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"

namespace mrmf::test {
namespace {

LayerSpec dense(Index units) {
  LayerSpec spec;
  spec.kind = LayerKind::dense;
  spec.units = units;
  return spec;
}

}  // namespace

LayerCases dense_cases() {
  return {
      {"8->8", flat(4, 8), dense(8)},        {"128->19", flat(33, 128), dense(19)},
      {"181->64", flat(16, 181), dense(64)}, {"1->1", flat(3, 1), dense(1)},
      {"1->5", flat(6, 1), dense(5)},        {"30->1", flat(7, 30), dense(1)},
      {"one row", flat(1, 17), dense(9)},    {"many rows", flat(300, 81), dense(64)},
  };
}

}  // namespace mrmf::test
