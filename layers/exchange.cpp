#include "layers/exchange.hpp"

#include <vector>

namespace mrmf {
namespace {

/// Positions for one other rank, or from one.
struct Parcel {
  int rank = 0;
  Box box;      ///< of the whole tensor's positions
  Index first;  ///< its place in the cache, in floats
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

class ExchangeLayer final : public Layer {
 public:
  ExchangeLayer(Backend& backend, const ExchangeSettings& s) : backend_(backend), shape_(s.shape) {
    const Extent here = s.grid.place(s.rank);
    made_ = s.from.made.of(here);
    needed_ = s.to.of(here);
    const Box owned = s.from.owned.of(here);
    kept_ = intersection(owned, needed_);
    covered_ = kept_ == made_;
    for (int rank = 0; rank < s.grid.ranks(); ++rank) {
      if (rank == s.rank) continue;
      const Extent there = s.grid.place(rank);
      add(sent_, rank, intersection(owned, s.to.of(there)));
      add(received_, rank, intersection(s.from.owned.of(there), needed_));
    }
  }

  std::string signature() const override { return "exchange"; }
  Shape output() const override { return of_box(shape_, needed_); }
  Footprint footprint() const override { return {.params = {}, .state = {}, .cache = floats_, .reads_input = false}; }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    const Index rows = x.shape.n;
    for (const Parcel& parcel : sent_)
      backend_.copy_box(x, tensor(buffers, parcel, rows),
                        {.from = relative(parcel.box.first, made_), .count = parcel.box.count});
    start(buffers, sent_, received_, rows);
    copy_kept(x, made_, y, needed_);
    buffers.step.blocks->finish();
    for (const Parcel& parcel : received_)
      backend_.copy_box(tensor(buffers, parcel, rows), y,
                        {.to = relative(parcel.box.first, needed_), .count = parcel.box.count});
  }

  void backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (dx.data.empty()) return;
    const Index rows = dy.shape.n;
    for (const Parcel& parcel : received_)
      backend_.copy_box(dy, tensor(buffers, parcel, rows),
                        {.from = relative(parcel.box.first, needed_), .count = parcel.box.count});
    start(buffers, received_, sent_, rows);
    if (!covered_) backend_.fill(dx.data, 0);
    copy_kept(dy, needed_, dx, made_);
    buffers.step.blocks->finish();
    for (const Parcel& parcel : sent_)
      backend_.copy_box(tensor(buffers, parcel, rows), dx,
                        {.to = relative(parcel.box.first, made_), .count = parcel.box.count, .add = true});
  }

 private:
  void add(std::vector<Parcel>& parcels, int rank, const Box& box) {
    if (box.empty()) return;
    parcels.push_back({rank, box, floats_});
    floats_ += aligned(backend_.activation_floats(of_box(shape_, box)));
  }

  Tensor tensor(const LayerBuffers& buffers, const Parcel& parcel, Index rows) const {
    const Shape shape = of_box(shape_, parcel.box).rows(rows);
    return {shape, part(buffers.cache, {parcel.first, backend_.activation_floats(shape)})};
  }

  void copy_kept(ConstTensor from, const Box& there, Tensor to, const Box& here) {
    if (!kept_.empty())
      backend_.copy_box(
          from, to, {.from = relative(kept_.first, there), .to = relative(kept_.first, here), .count = kept_.count});
  }

  void start(const LayerBuffers& buffers, const std::vector<Parcel>& out, const std::vector<Parcel>& in, Index rows) {
    MRMF_CHECK(buffers.step.blocks != nullptr, "a sample on several ranks needs their messages");
    out_.clear(), in_.clear();
    for (const Parcel& parcel : out) out_.push_back({parcel.rank, tensor(buffers, parcel, rows).data});
    for (const Parcel& parcel : in) in_.push_back({parcel.rank, tensor(buffers, parcel, rows).data});
    buffers.step.blocks->start(out_, in_);
  }

  Backend& backend_;
  Shape shape_;
  Box made_, needed_, kept_;  // kept: owned here and needed here
  bool covered_ = false;      // backward writes every position of dx
  std::vector<Parcel> sent_, received_;
  Index floats_ = 0;
  std::vector<Message> out_, in_;  // of the call under way
};

}  // namespace

std::unique_ptr<Layer> make_exchange(Backend& backend, const ExchangeSettings& settings) {
  return std::make_unique<ExchangeLayer>(backend, settings);
}

Index exchanged_floats(const ExchangeSettings& s) {
  const Box owned = s.from.owned.of(s.grid.place(s.rank));
  Index positions = 0;
  for (int rank = 0; rank < s.grid.ranks(); ++rank)
    if (rank != s.rank) positions += product(intersection(owned, s.to.of(s.grid.place(rank))).count);
  return positions * s.shape.channels;
}

}  // namespace mrmf
