#include "tests/unit/layer_memory.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/backends.hpp"

namespace mrmf::test {
namespace {

constexpr float kGuardValue = -7.25e11F;

Index total(const std::vector<Part>& parts) {
  Index count = 0;
  for (const Part& part : parts) count += part.count();
  return count;
}

}  // namespace

Guarded::Guarded(Backend& backend, Index count)
    : arena_(backend.allocate(count + 2 * static_cast<Index>(kGuard))), count_(static_cast<std::size_t>(count)) {
  std::ranges::fill(arena_.span(), kGuardValue);
  poison();
}

bool Guarded::intact() const {
  const auto guard = [](float value) { return value == kGuardValue; };
  return std::ranges::all_of(arena_.span().first(kGuard), guard) &&
         std::ranges::all_of(arena_.span().last(kGuard), guard);
}

void Guarded::poison() { std::ranges::fill(span(), std::numeric_limits<float>::quiet_NaN()); }

void Guarded::set(ConstSpan values) {
  MRMF_CHECK(values.size() == count_, "a guarded buffer is set as a whole");
  std::ranges::copy(values, span().begin());
}

LayerMemory::LayerMemory(Backend& backend, const Layer& layer, const Shape& input, Index rows)
    : in(input.rows(rows)),
      out(layer.output().rows(rows)),
      x(backend, in.count()),
      y(backend, out.count()),
      dy(backend, out.count()),
      dx(backend, in.count()),
      params(backend, total(layer.footprint().params)),
      grads(backend, total(layer.footprint().params)),
      state(backend, total(layer.footprint().state)),
      cache(backend, layer.footprint().cache) {}

void LayerMemory::fill(const Layer& layer, std::uint64_t seed) {
  Rng rng(seed);
  x.set(uniform(rng, x.span().size()));
  dy.set(uniform(rng, dy.span().size()));
  layer.initialise(rng, params.span(), state.span());
  for (float& value : params.span()) value += static_cast<float>(rng.uniform(-0.25, 0.25));
  for (float& value : state.span()) value += static_cast<float>(rng.uniform(0.0, 0.5));
}

void LayerMemory::copy_inputs(const LayerMemory& from) {
  x.set(from.x.span());
  dy.set(from.dy.span());
  params.set(from.params.span());
  state.set(from.state.span());
}

bool LayerMemory::guards_intact() const {
  const auto intact = [](const Guarded* buffer) { return buffer->intact(); };
  return std::ranges::all_of(std::array{&x, &y, &dy, &dx, &params, &grads, &state, &cache}, intact);
}

bool all_finite(ConstSpan values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace mrmf::test
