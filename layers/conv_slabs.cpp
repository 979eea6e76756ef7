#include "layers/conv_slabs.hpp"

#include <algorithm>
#include <optional>

namespace mrmf {
namespace {

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }

/// Outputs [first, end) along the axis that is cut into slabs.
struct Range {
  Index first = 0, end = 0;
};

/// The first axis of more than one position. None where what is here is not a part of x along that axis alone, or where
/// y has positions along an axis before.
std::optional<std::size_t> slab_axis(const ConvGeometry& g, const Box& here) {
  std::size_t axis = 0;
  while (axis < 2 && g.in.at(axis) == 1) ++axis;
  for (std::size_t a = 0; a < 3; ++a) {
    if (a != axis && (here.first.at(a) != 0 || here.count.at(a) != g.in.at(a))) return std::nullopt;
    if (a < axis && g.out().at(a) != 1) return std::nullopt;
  }
  return axis;
}

/// The outputs whose windows see of x only what is here, and padding.
Range seen(const ConvGeometry& g, std::size_t a, const Box& here) {
  const Index out = g.out().at(a), stride = g.stride.at(a), before = g.pad_before.at(a);
  Range range{0, out};
  if (here.first.at(a) > 0) range.first = std::min(out, ceil_div(here.first.at(a) + before, stride));
  if (here.end(a) < g.in.at(a)) {
    const Index last = here.end(a) + before - g.reach().at(a);  // where the last window may begin
    range.end = last < 0 ? 0 : std::min(out, last / stride + 1);
  }
  return range;
}

}  // namespace

std::unique_ptr<ConvSlabs> ConvSlabs::make(Backend& backend, const Shape& in, const ConvGeometry& geometry,
                                           const Box& here) {
  const std::optional<std::size_t> axis = slab_axis(geometry, here);
  if (!axis || in.n != 1) return nullptr;
  const std::size_t a = *axis;
  const Range inner = seen(geometry, a, here);
  if (inner.end <= inner.first) return nullptr;
  Shape out = in;
  out.spatial = geometry.out(), out.channels = geometry.out_channels;
  const auto piece = [&](Shape shape, Index first, Index count) {
    shape.spatial.at(a) = first;
    const Index before = backend.activation_floats(shape);
    shape.spatial.at(a) = count;
    return Piece{shape, {before, backend.activation_floats(shape)}};
  };
  const auto slab = [&](const Range& range) {
    ConvGeometry g = geometry;
    const Index first = range.first * g.stride.at(a) - g.pad_before.at(a);
    const Index end = (range.end - 1) * g.stride.at(a) - g.pad_before.at(a) + g.reach().at(a);
    const Index from = std::max<Index>(first, 0), to = std::min(end, geometry.in.at(a));
    g.in.at(a) = to - from, g.pad_before.at(a) = from - first, g.pad_after.at(a) = end - to;
    return Slab{from < to ? backend.conv(g, 1) : nullptr, piece(in, from, to - from),
                piece(out, range.first, range.end - range.first)};
  };
  auto slabs = std::make_unique<ConvSlabs>();
  slabs->inner_ = slab(inner);
  for (const Range& range : {Range{0, inner.first}, Range{inner.end, out.spatial.at(a)}})
    if (range.end > range.first) slabs->outer_.push_back(slab(range));
  const auto sees_padding_alone = [](const Slab& one) { return one.op == nullptr; };
  if (sees_padding_alone(slabs->inner_) || std::ranges::any_of(slabs->outer_, sees_padding_alone)) return nullptr;
  return slabs;
}

void ConvSlabs::prepare() {
  inner_.op->prepare(1);
  for (const Slab& slab : outer_) slab.op->prepare(1);
}

void ConvSlabs::run(const Slab& slab, ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) {
  const ConstSpan of_x = x.data.subspan(static_cast<std::size_t>(slab.x.place.first));
  slab.op->forward({slab.x.shape, of_x.first(static_cast<std::size_t>(slab.x.place.count))}, w, b,
                   {slab.y.shape, span_at(y.data, slab.y.place)});
}

void ConvSlabs::begin(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) { run(inner_, x, w, b, y); }

void ConvSlabs::end(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) {
  for (const Slab& slab : outer_) run(slab, x, w, b, y);
}

}  // namespace mrmf
