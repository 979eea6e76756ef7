#include "tests/unit/support/layer_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

Index total(const std::vector<NamedTensor>& parts) {
  Index count = 0;
  for (const NamedTensor& part : parts) count += part.count();
  return count;
}

}  // namespace

void Guarded::Unmap::operator()(std::byte* pages) const { munmap(pages, bytes); }

Guarded::Guarded(Index count) : count_(static_cast<std::size_t>(count)) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = static_cast<std::size_t>(aligned(count) + static_cast<Index>(kGuard)) * sizeof(float);
  const std::size_t forbidden = (used + page - 1) / page * page, bytes = forbidden + page;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  MRMF_CHECK(pages != MAP_FAILED, "no memory for a test's buffer");
  pages_ = {static_cast<std::byte*>(pages), Unmap{bytes}};
  MRMF_CHECK(mprotect(pages_.get() + forbidden, page, PROT_NONE) == 0, "the page behind a test's buffer");
  floats_ = {reinterpret_cast<float*>(pages_.get() + forbidden - used), used / sizeof(float)};
  std::ranges::fill(floats_, kGuardValue);
  poison();
}

bool Guarded::intact() const {
  const auto guard = [](float value) { return value == kGuardValue; };
  return std::ranges::all_of(floats_.first(kGuard), guard) &&
         std::ranges::all_of(floats_.subspan(kGuard + count_), guard);
}

void Guarded::poison() { std::ranges::fill(span(), std::numeric_limits<float>::quiet_NaN()); }

void Guarded::set(ConstSpan values) {
  MRMF_CHECK(values.size() == count_, "a guarded buffer is set as a whole");
  std::ranges::copy(values, span().begin());
}

SliceMemory::SliceMemory(const Shape& shape, bool slice)
    : shape_(shape), slice_(slice), memory_(shape.n * product(shape.spatial) * pitch()) {
  std::ranges::fill(memory_.span(), kGuardValue);
}

void SliceMemory::set(ConstSpan values) {
  const Tensor to = tensor();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<Index>(i);
    to.data[at / shape_.channels * pitch() + at % shape_.channels] = values[i];
  }
}

std::vector<float> SliceMemory::values() const {
  const ConstTensor from = tensor();
  std::vector<float> values;
  for (Index i = 0; i < shape_.count(); ++i)
    values.push_back(from.data[i / shape_.channels * pitch() + i % shape_.channels]);
  return values;
}

bool SliceMemory::intact() const {
  if (!slice_) return memory_.intact();
  const auto beside = std::ranges::count(memory_.span(), kGuardValue);
  return memory_.intact() && beside == shape_.n * product(shape_.spatial) * (kBefore + kBehind);
}

LayerMemory::LayerMemory(const Layer& layer, const Shape& input, Index rows)
    : in(input.with_rows(rows)),
      out(layer.output().with_rows(rows)),
      x(in.count()),
      y(out.count()),
      dy(out.count()),
      dx(in.count()),
      params(total(layer.footprint().params)),
      grads(total(layer.footprint().params)),
      state(total(layer.footprint().state)),
      cache(layer.footprint().cache) {}

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
