// OpenMP may give a parallel region fewer threads than asked for (OMP_THREAD_LIMIT, OMP_DYNAMIC, a region inside of
// another): kernels must not count on the ones that did not come.
#include <doctest/doctest.h>
#include <omp.h>

#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_layer.hpp"
#include "tests/unit/support/layer_memory.hpp"

namespace mrmf::test {
namespace {

/// Runs body where parallel regions get one thread: inside of another region, as nesting is off.
template <class Body>
void with_one_thread(const Body& body) {
#pragma omp parallel num_threads(2)
#pragma omp single
  body();
}

LayerSpec windowed_spec(LayerKind kind, const Extent& window, const Extent& stride = {0, 0, 0}) {
  LayerSpec spec;
  spec.kind = kind;
  spec.window = window;
  spec.stride = stride;
  spec.units = 8;
  return spec;
}

LayerCases thread_cases() {
  const LayerSpec conv = windowed_spec(LayerKind::conv, {1, 1, 4});
  LayerSpec direct = windowed_spec(LayerKind::conv, {1, 3, 2});
  direct.units = 16;  // a vector of the widest set
  return {
      {"fused, first layer", line(6, 43, 3), conv, windowed_spec(LayerKind::max_pool, {1, 1, 4})},
      {"fused, later layer", line(6, 43, 30), conv, windowed_spec(LayerKind::max_pool, {1, 1, 4})},
      {"direct convolution", image(6, 12, 12, 4), direct},
      {"oneDNN's convolution", image(6, 12, 12, 16), windowed_spec(LayerKind::conv, {1, 3, 2}, {1, 2, 1})},
      {"fused planes, first layer", image(6, 14, 13, 1), windowed_spec(LayerKind::conv, {1, 3, 3}),
       windowed_spec(LayerKind::max_pool, {1, 2, 2})},
      {"fused planes, later layer", image(6, 14, 13, 16), windowed_spec(LayerKind::conv, {1, 3, 3}),
       windowed_spec(LayerKind::max_pool, {1, 2, 2})},
      {"untied weights, positions together", image(6, 9, 30, 40),
       windowed_spec(LayerKind::locally_connected, {1, 2, 7})},
      {"dense", flat(6, 300), windowed_spec(LayerKind::dense, {1, 1, 1})},
      {"batch norm", line(6, 43, 30), windowed_spec(LayerKind::batch_norm, {1, 1, 1})},
  };
}

/// A layer built for two threads, run once by both of them, and then on other numbers through `around(pass)`.
template <class Around>
void check_after(const Around& around) {
  const auto onednn = make_cpu_backend(2), reference = make_reference_backend();
  const std::vector<std::int64_t> ids(6);
  const StepContext step{.training = true, .seed = 5, .updates_done = 3, .ids = ids, .team_sum = nullptr};
  for (const LayerCase& c : thread_cases()) {
    INFO(c.title);
    const auto layer = make_case(*onednn, c), oracle = make_case(*reference, c);
    LayerMemory got(*layer, c.in, c.in.n), want(*oracle, c.in, c.in.n);
    const auto pass = [&] {
      got.forward(*layer, step);
      got.backward(*layer, step);
    };
    want.fill(*oracle, 1);
    got.copy_inputs(want);
    pass();
    want.fill(*oracle, 2);
    got.copy_inputs(want);
    want.forward(*oracle, step);
    want.backward(*oracle, step);
    around(pass);
    // As for every layer against the reference: float sums of a few hundred terms.
    CHECK(relative_distance(got.y.span(), want.y.span()) < 5e-6);
    CHECK(relative_distance(got.grads.span(), want.grads.span()) < 5e-6);
    CHECK(relative_distance(got.dx.span(), want.dx.span()) < 5e-6);
  }
}

}  // namespace

// oneDNN 2.6's weight gradients on AVX-512 wait in a barrier for the threads that they were made for: with fewer, these
// cases never ended.

TEST_CASE("threads: fewer than asked for leave no stale sums behind, and are not waited for") {
  check_after([](const auto& pass) { with_one_thread(pass); });
}

// One thread that does everything is the most that others can come late.
TEST_CASE("threads: results have the same bits whichever thread computes what") {
  const auto cpu = make_cpu_backend(2), reference = make_reference_backend();
  const StepContext step{.training = true, .seed = 5, .updates_done = 3, .ids = {}, .team_sum = nullptr};
  for (const LayerCase& c : thread_cases()) {
    if (c.title == "oneDNN's convolution" || c.title == "dense") continue;  // oneDNN shares these out by itself
    INFO(c.title);
    const auto layer = make_case(*cpu, c), oracle = make_case(*reference, c);
    LayerMemory got(*layer, c.in, c.in.n), inputs(*oracle, c.in, c.in.n);
    inputs.fill(*oracle, 1);
    std::vector<float> y, dx, grads;
    const auto pass = [&] {
      got.copy_inputs(inputs);
      got.forward(*layer, step);
      got.backward(*layer, step);
      y = got.y.values(), dx = got.dx.values(), grads = got.grads.values();
    };
    pass();
    const auto y_of_two = y, dx_of_two = dx, grads_of_two = grads;
    with_one_thread(pass);
    CHECK(y == y_of_two);
    CHECK(dx == dx_of_two);
    CHECK(grads == grads_of_two);
  }
}

TEST_CASE("threads: a layer built inside of a parallel region runs there and outside of it") {
  const auto onednn = make_cpu_backend(2), reference = make_reference_backend();
  const StepContext step{.training = true, .seed = 5, .updates_done = 3, .ids = {}, .team_sum = nullptr};
  for (const LayerCase& c : thread_cases()) {
    INFO(c.title);
    const auto oracle = make_case(*reference, c);
    std::unique_ptr<Layer> layer;
    LayerMemory want(*oracle, c.in, c.in.n);
    want.fill(*oracle, 2);
    want.forward(*oracle, step);
    want.backward(*oracle, step);
    std::optional<LayerMemory> got;
    const auto pass = [&] {
      got->copy_inputs(want);
      got->forward(*layer, step);
      got->backward(*layer, step);
    };
    with_one_thread([&] {
      layer = make_case(*onednn, c);
      got.emplace(*layer, c.in, c.in.n);
      pass();
    });
    pass();
    CHECK(relative_distance(got->y.span(), want.y.span()) < 5e-6);
    CHECK(relative_distance(got->grads.span(), want.grads.span()) < 5e-6);
    CHECK(relative_distance(got->dx.span(), want.dx.span()) < 5e-6);
  }
}

TEST_CASE("threads: the caller's own settings change no sums, and stay as they are") {
  const int threads = omp_get_max_threads();
  const auto with = [](int count, int dynamic, const auto& pass) {
    omp_set_num_threads(count);
    omp_set_dynamic(dynamic);
    pass();
    CHECK(omp_get_max_threads() == count);
    CHECK(omp_get_dynamic() == dynamic);
  };
  SUBCASE("more threads") {
    check_after([&](const auto& pass) { with(3, 0, pass); });
  }
  SUBCASE("one thread") {
    check_after([&](const auto& pass) { with(1, 0, pass); });
  }
  SUBCASE("as many as OpenMP likes") {
    check_after([&](const auto& pass) { with(2, 1, pass); });
  }
  SUBCASE("no parallel regions at all") {
    const int levels = omp_get_max_active_levels();
    check_after([&](const auto& pass) {
      omp_set_max_active_levels(0);
      pass();
      omp_set_max_active_levels(levels);
    });
  }
  SUBCASE("another thread, with settings of its own") {
    check_after([&](const auto& pass) { std::jthread(with, 3, 1, pass).join(); });
  }
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
}

TEST_CASE("threads: a backend says how many it has, and which it was not given") {
  CHECK(make_cpu_backend(2)->description().ends_with(", threads: 2"));
  with_one_thread(
      [] { CHECK(make_cpu_backend(3)->description().ends_with(", threads: 1 (OpenMP grants no more of 3)")); });
}

}  // namespace mrmf::test
