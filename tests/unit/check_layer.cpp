#include "tests/unit/check_layer.hpp"

#include <doctest/doctest.h>

#include "tests/unit/backends.hpp"
#include "tests/unit/check_slope.hpp"
#include "tests/unit/layer_buffers.hpp"

namespace mrmf::test {
namespace {

// Float sums of up to a few thousand terms against double ones: rounding grows as the root of the number of terms,
// below 60 * 6e-8 of the norm. A wrong term among a few hundred is 1e-2.
constexpr double kAgreement = 5e-6;

constexpr std::uint64_t kSeed = 20240611;

/// A layer under test, built for in.n rows, and where in the run its calls stand.
struct Subject {
  Backend& backend;
  const LayerCase& layer_case;
  std::unique_ptr<Layer> layer;
  std::vector<std::int64_t> ids;
  Step step;

  Subject(Backend& b, const LayerCase& c) : backend(b), layer_case(c), layer(make_case(b, c)) {
    for (Index row = 0; row < c.in.n; ++row) ids.push_back(row * 3000000007 + 11);
    step = {.training = true, .seed = 5, .number = 3, .ids = ids, .ranks = nullptr};
  }
  LayerBuffers buffers(Index rows) { return {backend, *layer, layer_case.in, rows}; }
};

/// Forward and backward with poisoned outputs; checks what a call may read and write.
void run(Subject& subject, LayerBuffers& b) {
  Layer& layer = *subject.layer;
  const auto x = b.x.values(), dy = b.dy.values(), params = b.params.values();
  layer.prepare(b.in.n);
  b.y.poison();
  b.cache.poison();
  b.forward(layer, subject.step);
  CHECK(all_finite(b.y.span()));
  CHECK(all_finite(b.state.span()));

  const auto y = b.y.values();
  if (!layer.footprint().reads_output) b.y.poison();
  b.grads.poison();
  b.dx.poison();
  b.backward(layer, subject.step);
  CHECK(all_finite(b.grads.span()));
  CHECK(all_finite(b.dx.span()));
  if (layer.footprint().reads_output) CHECK(b.y.values() == y);
  b.y.set(y);

  CHECK(b.x.values() == x);
  CHECK(b.dy.values() == dy);
  CHECK(b.params.values() == params);
  CHECK(b.guards_intact());
}

void check_agreement(const LayerBuffers& got, const LayerBuffers& want) {
  CHECK(relative_distance(got.y.span(), want.y.span()) < kAgreement);
  CHECK(relative_distance(got.dx.span(), want.dx.span()) < kAgreement);
  CHECK(relative_distance(got.grads.span(), want.grads.span()) < kAgreement);
  CHECK(relative_distance(got.state.span(), want.state.span()) < kAgreement);
}

/// The same call on subject and oracle.
void check_against(Subject& subject, Subject& oracle, Index rows) {
  INFO("rows: ", rows);
  LayerBuffers want = oracle.buffers(rows), got = subject.buffers(rows);
  want.fill(*oracle.layer, kSeed);
  got.copy_inputs(want);
  run(oracle, want);
  run(subject, got);
  check_agreement(got, want);
}

void check_evaluation(Subject& subject, Subject& oracle) {
  LayerBuffers want = oracle.buffers(subject.layer_case.in.n), got = subject.buffers(subject.layer_case.in.n);
  want.fill(*oracle.layer, kSeed + 1);
  got.copy_inputs(want);
  const auto state = got.state.values();
  Step step = subject.step;
  step.training = false;
  want.forward(*oracle.layer, step);
  got.forward(*subject.layer, step);
  CHECK(all_finite(got.y.span()));
  CHECK(relative_distance(got.y.span(), want.y.span()) < kAgreement);
  CHECK(got.state.values() == state);
  CHECK(got.guards_intact());
}

/// Without dx the gradients are what they are with it; with dx in the place of dy, too.
void check_other_calls(Subject& subject) {
  Layer& layer = *subject.layer;
  LayerBuffers b = subject.buffers(subject.layer_case.in.n), other = subject.buffers(subject.layer_case.in.n);
  b.fill(layer, kSeed + 2);
  other.copy_inputs(b);
  run(subject, b);

  other.forward(layer, subject.step);
  layer.backward(other.lend(subject.step), {other.in, other.x.span()}, {other.out, other.y.span()},
                 {other.out, other.dy.span()}, {other.in, {}});
  CHECK(relative_distance(other.grads.span(), b.grads.span()) < kAgreement);
  CHECK(other.guards_intact());

  if (!layer.footprint().in_place) return;
  const Span data = other.x.span(), gradient = other.dy.span();
  const Lent lent = other.lend(subject.step);
  layer.forward(lent, {other.in, data}, {other.out, data});
  CHECK(other.x.values() == b.y.values());
  layer.backward(lent, {other.in, data}, {other.out, data}, {other.out, gradient}, {other.in, gradient});
  CHECK(other.dy.values() == b.dx.values());
  CHECK(other.guards_intact());
}

void check_slopes(Subject& subject) {
  LayerBuffers b = subject.buffers(subject.layer_case.in.n);
  b.fill(*subject.layer, kSeed + 3);
  const LayerCase& c = subject.layer_case;
  check_slope({*subject.layer, subject.step, curvature_of(c.pool ? LayerKind::max_pool : c.spec.kind)}, b);
}

}  // namespace

std::unique_ptr<Layer> make_case(Backend& backend, const LayerCase& c) {
  if (c.pool) return make_conv_pool_relu(backend, c.in, c.spec, *c.pool);
  return make_layer(backend, c.in, c.spec, 7);
}

void check_layer(Backend& backend, const LayerCase& layer_case) {
  INFO(backend.name(), ": ", layer_case.title);
  const auto reference = make_reference_backend();
  Subject oracle(*reference, layer_case), subject(backend, layer_case);
  REQUIRE(oracle.layer != nullptr);
  if (subject.layer == nullptr) return;  // a fused operation that this backend does not offer
  CHECK(subject.layer->output() == oracle.layer->output());

  const Index all = layer_case.in.n, fewer = all / 2 + 1;
  for (const Index rows : {all, fewer, all}) check_against(subject, oracle, rows);
  check_evaluation(subject, oracle);
  check_other_calls(subject);
  check_slopes(subject);
}

}  // namespace mrmf::test
