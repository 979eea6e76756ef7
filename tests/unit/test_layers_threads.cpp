// OpenMP may give a parallel region fewer threads than asked for (OMP_THREAD_LIMIT, OMP_DYNAMIC, a region inside of
// another): the own kernels must not count on the ones that did not come.
#include <doctest/doctest.h>
#include <omp.h>

#include "tests/unit/backends.hpp"
#include "tests/unit/check_layer.hpp"
#include "tests/unit/layer_buffers.hpp"

namespace mrmf::test {
namespace {

/// Runs body where parallel regions get one thread: inside of another region, as nesting is off.
template <class Body>
void with_one_thread(const Body& body) {
#pragma omp parallel num_threads(2)
#pragma omp single
  body();
}

LayerSpec spec_of(LayerKind kind, const Extent& window) {
  LayerSpec spec;
  spec.kind = kind;
  spec.window = window;
  spec.units = 8;
  return spec;
}

}  // namespace

TEST_CASE("threads: fewer than asked for leave no stale sums behind") {
  const auto onednn = make_onednn_backend(2), reference = make_reference_backend();
  const LayerSpec conv = spec_of(LayerKind::conv, {1, 1, 4});
  const LayerCase cases[] = {
      {"fused, first layer", line(6, 43, 3), conv, spec_of(LayerKind::max_pool, {1, 1, 4})},
      {"fused, later layer", line(6, 43, 30), conv, spec_of(LayerKind::max_pool, {1, 1, 4})},
      {"direct convolution", image(6, 12, 12, 4), spec_of(LayerKind::conv, {1, 3, 2})},
      {"batch norm", line(6, 43, 30), spec_of(LayerKind::batch_norm, {1, 1, 1})},
  };
  const std::vector<std::int64_t> ids(6);
  const Step step{.training = true, .seed = 5, .number = 3, .ids = ids, .ranks = nullptr};
  for (const LayerCase& c : cases) {
    INFO(c.title);
    const auto layer = make_case(*onednn, c), oracle = make_case(*reference, c);
    LayerBuffers got(*onednn, *layer, c.in, c.in.n), want(*reference, *oracle, c.in, c.in.n);
    // All threads leave sums of other numbers first.
    want.fill(*oracle, 1);
    got.copy_inputs(want);
    got.forward(*layer, step);
    got.backward(*layer, step);
    want.fill(*oracle, 2);
    got.copy_inputs(want);
    want.forward(*oracle, step);
    want.backward(*oracle, step);
    with_one_thread([&] {
      got.forward(*layer, step);
      got.backward(*layer, step);
    });
    // As for every layer against the reference: float sums of a few hundred terms.
    CHECK(relative_distance(got.y.span(), want.y.span()) < 5e-6);
    CHECK(relative_distance(got.grads.span(), want.grads.span()) < 5e-6);
    CHECK(relative_distance(got.dx.span(), want.dx.span()) < 5e-6);
  }
}

}  // namespace mrmf::test
