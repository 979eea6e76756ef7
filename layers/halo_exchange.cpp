#include "layers/halo_exchange.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "layers/geometry_and_reach.hpp"

namespace mrmf {
namespace {

/// The axis along which positions of the first axis of more than one lie one after the other.
std::size_t leading_axis(const Shape& shape) {
  std::size_t a = 0;
  while (a < 2 && shape.spatial.at(a) == 1) ++a;
  return a;
}

/// Positions for one other rank, or from one.
struct Parcel {
  int rank = 0;
  Box box;      ///< box of the whole tensor's positions
  Index first;  ///< where it begins in the cache, in floats
};

Extent relative(const Extent& position, const Box& in) {
  Extent result;
  for (std::size_t a = 0; a < 3; ++a) result[a] = position[a] - in.first[a];
  return result;
}

Shape of_box(const Shape& shape, const Box& box) {
  Shape part = shape;
  part.spatial = box.count;
  return part;
}

class HaloExchangeLayer final : public Layer {
 public:
  HaloExchangeLayer(Backend& backend, const HaloExchangeSettings& s) : backend_(backend), shape_(s.shape) {
    const Extent here = s.grid.coordinates(s.rank);
    made_ = s.from.stored.block(here);
    needed_ = s.to.block(here);
    const Box owned = s.from.owned.block(here);
    MRMF_CHECK(contains(made_, owned), "a block owns positions that it has not made");
    kept_ = intersection(owned, needed_);
    covered_ = kept_ == made_;
    bool slabs = shape_.n == 1 && is_slab(made_);
    for (int rank = 0; rank < s.grid.ranks(); ++rank) {
      if (rank == s.rank) continue;
      const Extent there = s.grid.coordinates(rank);
      add(sent_, rank, intersection(owned, s.to.block(there)));
      add(received_, rank, intersection(s.from.owned.block(there), needed_));
    }
    for (const auto* parcels : {&sent_, &received_})
      for (const Parcel& parcel : *parcels) slabs = slabs && is_slab(parcel.box);
    if (slabs && covered_) margin_ = floats_before(made_);
  }

  std::string signature() const override { return "exchange"; }
  Shape output() const override { return of_box(shape_, needed_); }
  Footprint footprint() const override {
    Footprint footprint{.params = {}, .state = {}, .cache = floats_, .reads_input = false};
    footprint.margin = margin_;
    return footprint;
  }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    begin_forward(buffers, x, y);
    end_forward(buffers, x, y);
  }
  void begin_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    const Index rows = x.shape.n;
    if (lies_within(x.data, y.data)) {
      messages(out_, sent_, [&](const Parcel& parcel) { return slab(y.data, parcel); });
      messages(in_, received_, [&](const Parcel& parcel) { return slab(y.data, parcel); });
      return start(buffers);
    }
    for (const Parcel& parcel : sent_)
      backend_.copy_box(x, tensor(buffers, parcel, rows),
                        {.from = relative(parcel.box.first, made_), .count = parcel.box.count});
    messages(out_, sent_, [&](const Parcel& parcel) { return tensor(buffers, parcel, rows).data; });
    messages(in_, received_, [&](const Parcel& parcel) { return tensor(buffers, parcel, rows).data; });
    start(buffers);
    copy_kept(x, made_, y, needed_);
  }
  void end_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    buffers.step.halo_messages->finish();
    if (lies_within(x.data, y.data)) return;
    for (const Parcel& parcel : received_)
      backend_.copy_box(tensor(buffers, parcel, x.shape.n), y,
                        {.to = relative(parcel.box.first, needed_), .count = parcel.box.count});
  }

  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    begin_backward(buffers, x, y, dy, dx);
    end_backward(buffers, x, y, dy, dx);
  }
  void begin_backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    const Index rows = dy.shape.n;
    if (lies_within(dx.data, dy.data)) {
      const Span whole{dx.data.data() - *margin_, dy.data.size()};
      messages(out_, received_, [&](const Parcel& parcel) { return slab(whole, parcel); });
    } else {
      for (const Parcel& parcel : received_)
        backend_.copy_box(dy, tensor(buffers, parcel, rows),
                          {.from = relative(parcel.box.first, needed_), .count = parcel.box.count});
      messages(out_, received_, [&](const Parcel& parcel) { return tensor(buffers, parcel, rows).data; });
    }
    messages(in_, sent_, [&](const Parcel& parcel) { return tensor(buffers, parcel, rows).data; });
    start(buffers);
  }
  /// Nothing is written to dx before: its memory may be what the reader of y still reads in its own second half.
  void end_backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    if (!lies_within(dx.data, dy.data)) {
      if (!covered_) backend_.fill(dx.data, 0);
      copy_kept(dy, needed_, dx, made_);
    }
    buffers.step.halo_messages->finish();
    for (const Parcel& parcel : sent_)
      backend_.copy_box(tensor(buffers, parcel, dy.shape.n), dx,
                        {.to = relative(parcel.box.first, made_), .count = parcel.box.count, .add = true});
  }

 private:
  /// Whether a box of one sample's positions is one piece of the memory of those needed here.
  bool is_slab(const Box& box) const {
    Box across = box;
    const std::size_t a = leading_axis(shape_);
    across.first.at(a) = needed_.first.at(a), across.count.at(a) = needed_.count.at(a);
    return across == needed_;
  }
  /// Floats of y in front of a slab.
  Index floats_before(const Box& box) const {
    Box before = needed_;
    const std::size_t a = leading_axis(shape_);
    before.count.at(a) = box.first.at(a) - needed_.first.at(a);
    return backend_.activation_floats(of_box(shape_, before));
  }
  Span slab(Span whole, const Parcel& parcel) const {
    return span_at(whole, {floats_before(parcel.box), backend_.activation_floats(of_box(shape_, parcel.box))});
  }
  /// Whether what was made is between the margins of what is needed.
  bool lies_within(ConstSpan made, ConstSpan needed) const {
    return margin_ && made.data() == needed.data() + *margin_;
  }

  void add(std::vector<Parcel>& parcels, int rank, const Box& box) {
    if (box.empty()) return;
    parcels.push_back({rank, box, floats_});
    floats_ += aligned(backend_.activation_floats(of_box(shape_, box)));
  }

  Tensor tensor(const LayerBuffers& buffers, const Parcel& parcel, Index rows) const {
    const Shape shape = of_box(shape_, parcel.box).with_rows(rows);
    return {shape, span_at(buffers.cache, {parcel.first, backend_.activation_floats(shape)})};
  }

  void copy_kept(ConstTensor from, const Box& there, Tensor to, const Box& here) {
    if (!kept_.empty())
      backend_.copy_box(
          from, to, {.from = relative(kept_.first, there), .to = relative(kept_.first, here), .count = kept_.count});
  }

  template <class Memory>
  static void messages(std::vector<Message>& to, const std::vector<Parcel>& parcels, const Memory& memory) {
    to.clear();
    for (const Parcel& parcel : parcels) to.push_back({parcel.rank, memory(parcel)});
  }

  void start(const LayerBuffers& buffers) {
    MRMF_CHECK(buffers.step.halo_messages != nullptr, "a sample on several ranks needs their messages");
    buffers.step.halo_messages->start(out_, in_);
  }

  Backend& backend_;
  Shape shape_;
  Box made_, needed_, kept_;  // kept: owned here and needed here
  bool covered_ = false;      // every position of x is kept
  std::optional<Index> margin_;
  std::vector<Parcel> sent_, received_;
  Index floats_ = 0;
  std::vector<Message> out_, in_;  // the messages of the call under way
};

}  // namespace

std::unique_ptr<Layer> make_halo_exchange(Backend& backend, const HaloExchangeSettings& settings) {
  return std::make_unique<HaloExchangeLayer>(backend, settings);
}

Index halo_exchange_floats(const HaloExchangeSettings& s) {
  const Box owned = s.from.owned.block(s.grid.coordinates(s.rank));
  Index positions = 0;
  for (int rank = 0; rank < s.grid.ranks(); ++rank)
    if (rank != s.rank) positions += product(intersection(owned, s.to.block(s.grid.coordinates(rank))).count);
  return positions * s.shape.channels;
}

namespace {

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
  const ConstSpan of_x = x.data.subspan(static_cast<std::size_t>(slab.x.span.first));
  slab.op->forward({slab.x.shape, of_x.first(static_cast<std::size_t>(slab.x.span.count))}, w, b,
                   {slab.y.shape, span_at(y.data, slab.y.span)});
}

void ConvSlabs::begin(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) { run(inner_, x, w, b, y); }

void ConvSlabs::end(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) {
  for (const Slab& slab : outer_) run(slab, x, w, b, y);
}

}  // namespace mrmf
