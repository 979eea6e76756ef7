#include "tests/unit/support/check_layer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/check_slope.hpp"
#include "tests/unit/support/layer_memory.hpp"

namespace mrmf::test {
namespace {

constexpr std::uint64_t kCheckSeed = 20240611;

/// A layer under test, built for in.n rows, and where in the run its calls stand.
struct Subject {
  Backend& backend;
  const LayerCase& layer_case;
  const LayerCheck& check;
  std::unique_ptr<Layer> layer;
  std::vector<std::int64_t> ids;
  StepContext step;

  Subject(Backend& b, const LayerCase& c, const LayerCheck& how)
      : backend(b), layer_case(c), check(how), layer(make_case(b, c)) {
    for (Index row = 0; row < c.in.n; ++row) ids.push_back(row * 3000000007 + 11);
    step = {.training = true, .seed = 5, .updates_done = 3, .ids = ids, .team_sum = nullptr};
  }
  LayerMemory buffers(Index rows) { return {*layer, layer_case.in, rows}; }
};

/// To the nearest of so many significant bits; of two, to the even one.
float rounded(float value, int bits) {
  const int dropped = std::numeric_limits<float>::digits - bits;
  if (dropped <= 0) return value;
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t least = std::uint32_t{1} << dropped, half = least / 2 - 1 + (all >> dropped & 1);
  return std::bit_cast<float>((all + half) & ~(least - 1));
}

/// Random inputs of the kind that the check asks for.
void fill(Subject& subject, LayerMemory& b, std::uint64_t seed) {
  b.fill(*subject.layer, seed);
  if (subject.check.inputs == Inputs::whole) {
    Rng rng(seed);
    for (const Span span : {b.x.span(), b.dy.span(), b.params.span()})
      for (float& value : span) value = static_cast<float>(std::floor(rng.uniform(-2, 3)));
    return;
  }
  for (const Span span : {b.x.span(), b.dy.span(), b.params.span()})
    for (float& value : span) value = rounded(value, subject.check.bits);
}

/// Forward and backward with poisoned outputs; checks what a call may read and write.
void run(Subject& subject, LayerMemory& b) {
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
  if (!layer.footprint().reads_input) b.x.poison();
  b.grads.poison();
  b.dx.poison();
  b.backward(layer, subject.step);
  CHECK(all_finite(b.grads.span()));
  CHECK(all_finite(b.dx.span()));
  if (layer.footprint().reads_output) CHECK(b.y.values() == y);
  b.y.set(y);
  if (!layer.footprint().reads_input) {
    CHECK(std::ranges::all_of(b.x.span(), [](float value) { return std::isnan(value); }));
    b.x.set(x);
  }

  CHECK(b.x.values() == x);
  CHECK(b.dy.values() == dy);
  CHECK(b.params.values() == params);
  CHECK(b.guards_intact());
}

void check_layer_agreement(const LayerMemory& got, const LayerMemory& want, const Agreement& agreement) {
  CHECK(relative_distance(got.y.span(), want.y.span()) < agreement.y);
  CHECK(relative_distance(got.dx.span(), want.dx.span()) < agreement.dx);
  CHECK(relative_distance(got.grads.span(), want.grads.span()) < agreement.params);
  CHECK(relative_distance(got.state.span(), want.state.span()) < agreement.params);
}

/// The same call on subject and oracle.
void check_against(Subject& subject, Subject& oracle, Index rows) {
  INFO("rows: ", rows);
  LayerMemory want = oracle.buffers(rows), got = subject.buffers(rows);
  fill(oracle, want, kCheckSeed);
  got.copy_inputs(want);
  run(oracle, want);
  run(subject, got);
  check_layer_agreement(got, want, subject.check.agreement);
}

void check_evaluation(Subject& subject, Subject& oracle) {
  LayerMemory want = oracle.buffers(subject.layer_case.in.n), got = subject.buffers(subject.layer_case.in.n);
  fill(oracle, want, kCheckSeed + 1);
  got.copy_inputs(want);
  const auto state = got.state.values();
  StepContext step = subject.step;
  step.training = false;
  want.forward(*oracle.layer, step);
  got.forward(*subject.layer, step);
  CHECK(all_finite(got.y.span()));
  CHECK(relative_distance(got.y.span(), want.y.span()) < subject.check.agreement.y);
  CHECK(got.state.values() == state);
  CHECK(got.guards_intact());
}

void check_same_bits(Subject& subject) {
  LayerMemory first = subject.buffers(subject.layer_case.in.n), second = subject.buffers(subject.layer_case.in.n);
  fill(subject, first, kCheckSeed + 4);
  second.copy_inputs(first);
  run(subject, first);
  run(subject, second);
  CHECK(first.y.values() == second.y.values());
  CHECK(first.dx.values() == second.dx.values());
  CHECK(first.grads.values() == second.grads.values());
  CHECK(first.state.values() == second.state.values());
}

/// Without dx the gradients are what they are with it; with dx in the place of dy, too.
void check_other_calls(Subject& subject) {
  Layer& layer = *subject.layer;
  LayerMemory b = subject.buffers(subject.layer_case.in.n), other = subject.buffers(subject.layer_case.in.n);
  fill(subject, b, kCheckSeed + 2);
  other.copy_inputs(b);
  run(subject, b);

  other.forward(layer, subject.step);
  layer.backward(other.buffers_of(subject.step), {other.in, other.x.span()}, {other.out, other.y.span()},
                 {other.out, other.dy.span()}, {other.in, {}});
  CHECK(relative_distance(other.grads.span(), b.grads.span()) < Agreement{}.params);
  CHECK(other.guards_intact());

  if (!layer.footprint().in_place) return;
  const Span data = other.x.span(), gradient = other.dy.span();
  const LayerBuffers buffers = other.buffers_of(subject.step);
  layer.forward(buffers, {other.in, data}, {other.out, data});
  CHECK(other.x.values() == b.y.values());
  layer.backward(buffers, {other.in, data}, {other.out, data}, {other.out, gradient}, {other.in, gradient});
  CHECK(other.dy.values() == b.dx.values());
  CHECK(other.guards_intact());
}

/// Tensors that may be slices of a wider one's channels: the results stay the same.
void check_slices(Subject& subject) {
  Layer& layer = *subject.layer;
  const Footprint footprint = layer.footprint();
  const AcceptedSlices& may = footprint.accepted_slices;
  if (!may.x && !may.y && !may.dy) return;
  LayerMemory b = subject.buffers(subject.layer_case.in.n), other = subject.buffers(subject.layer_case.in.n);
  fill(subject, b, kCheckSeed + 5);
  other.copy_inputs(b);
  run(subject, b);

  SliceMemory x(b.in, may.x), y(b.out, may.y), dy(b.out, may.dy);
  x.set(b.x.span());
  dy.set(b.dy.span());
  const LayerBuffers buffers = other.buffers_of(subject.step);
  layer.forward(buffers, x.tensor(), y.tensor());
  CHECK(relative_distance(y.values(), b.y.span()) < Agreement{}.y);
  layer.backward(buffers, x.tensor(), y.tensor(), dy.tensor(), {other.in, other.dx.span()});
  CHECK(relative_distance(other.dx.span(), b.dx.span()) < Agreement{}.dx);
  CHECK(relative_distance(other.grads.span(), b.grads.span()) < Agreement{}.params);
  if (may.x && may.y && footprint.in_place) {
    layer.forward(buffers, x.tensor(), x.tensor());
    CHECK(x.values() == y.values());
  }
  CHECK((other.guards_intact() && x.intact() && y.intact() && dy.intact()));
}

Curvature curvature(const LayerCase& c) {
  if (c.relu) return Curvature::smooth_kinked;
  return curvature_of(c.pool ? LayerKind::max_pool : c.spec.kind);
}

void check_layer_slopes(Subject& subject) {
  LayerMemory b = subject.buffers(subject.layer_case.in.n);
  fill(subject, b, kCheckSeed + 3);
  check_slope({*subject.layer, subject.step, curvature(subject.layer_case)}, b);
}

}  // namespace

std::unique_ptr<Layer> make_case(Backend& backend, const LayerCase& c) {
  if (c.relu && (c.spec.kind == LayerKind::group_norm || c.spec.kind == LayerKind::layer_norm))
    return make_group_norm_relu(backend, c.in, c.spec, *c.relu, 7);
  if (c.relu) return make_norm_relu_pool(backend, c.in, {c.spec, *c.relu, c.pool});
  if (c.pool) return make_conv_pool_relu(backend, c.in, c.spec, *c.pool);
  return make_layer(backend, c.in, c.spec, 7);
}

void check_layer(Backend& backend, const LayerCase& layer_case, const LayerCheck& check) {
  INFO(backend.name(), ": ", layer_case.title);
  const auto reference = make_reference_backend();
  Subject oracle(*reference, layer_case, check), subject(backend, layer_case, check);
  REQUIRE(oracle.layer != nullptr);
  if (subject.layer == nullptr) return;  // a fused operation that this backend does not offer
  CHECK(subject.layer->output() == oracle.layer->output());

  const Index all = layer_case.in.n, fewer = all / 2 + 1;
  for (const Index rows : {all, fewer, all}) check_against(subject, oracle, rows);
  check_evaluation(subject, oracle);
  check_same_bits(subject);
  check_other_calls(subject);
  check_slices(subject);
  if (check.slopes) check_layer_slopes(subject);
}

}  // namespace mrmf::test
