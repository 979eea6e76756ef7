// Dense layers, whole or row-parallel over a grid of ranks.
#include <fmt/format.h>

#include "layers/geometry_and_reach.hpp"
#include "layers/layer.hpp"
#include "layers/memory_layout.hpp"
#include "layers/spec.hpp"

namespace mrmf {
namespace {

class Dense final : public Layer {
 public:
  Dense(Backend& backend, const Shape& in, const LayerSpec& spec)
      : in_(in.channels),
        output_{.n = in.n, .channels = spec.units},
        initialiser_(spec.initialiser),
        weights_(static_cast<std::size_t>(in.channels * spec.units)) {
    require(spec.units >= 1, spec, fmt::format("{} units; give at least 1", spec.units));
    require(in.axes == 0, spec, fmt::format("its input {} is not flat; put a flatten before it", to_string(in)));
    op_ = backend.dense(in_, spec.units, in.n);
  }

  std::string signature() const override { return fmt::format("dense {}->{}", in_, output_.channels); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {{"weight", {output_.channels, in_}}, {"bias", {output_.channels}}}, .state = {}};
  }
  double flop() const override { return 2.0 * static_cast<double>(weights_); }
  void initialise(Rng& rng, Span params, Span) const override {
    initialise_weights(initialiser_, {in_, output_.channels}, rng, params.first(weights_), params.subspan(weights_));
  }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, buffers.params.first(weights_), buffers.params.subspan(weights_), y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    op_->backward_weights(x, dy, buffers.grads.first(weights_), buffers.grads.subspan(weights_));
    if (!dx.data.empty()) op_->backward_data(dy, buffers.params.first(weights_), dx);
  }

 private:
  Index in_;
  Shape output_;
  Initialiser initialiser_;
  std::size_t weights_;
  std::unique_ptr<WeightedOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_dense(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<Dense>(backend, in, spec);
}

namespace {

class RowParallelDense final : public Layer {
 public:
  RowParallelDense(Backend& backend, const Shape& in, const LayerSpec& spec, const PartitionedWeights& cut)
      : backend_(backend),
        own_(cut.columns(cut.rank)),
        output_{.n = in.n, .channels = spec.units},
        weights_{0, cut.count(cut.rank)},
        bias_{aligned(weights_.count), spec.units},
        first_rank_(cut.rank == 0),
        op_(backend.dense(own_, spec.units, in.n)) {
    const auto room = [&](Index floats) {
      const ArenaSpan span{cache_, floats};
      cache_ = aligned(span.end());
      return span;
    };
    sum_ = room(backend.activation_floats(output_));
    const bool plain = backend.stored(output_) == output_ && backend.activation_floats(output_) == output_.count();
    summands_ = room(plain ? 0 : output_.count());  // four channels in bf16 are padded to as many floats
    no_bias_ = room(first_rank_ ? 0 : spec.units);
    const Shape flat{.n = in.n, .channels = own_};
    some_ = in.per_sample() != own_;
    MRMF_CHECK(!some_ || (in.axes == 0 && cut.whole.channels == 1), "features of whole samples are cut one by one");
    if (some_) from_ = cut.boxes.at(static_cast<std::size_t>(cut.rank)).first[2];
    const bool as_they_are = backend.stored(in).per_sample() == in.per_sample() && backend.stored(flat) == flat;
    if (some_ || !as_they_are) features_ = room(backend.activation_floats(flat));
  }

  std::string signature() const override { return fmt::format("dense {}->{}", own_, output_.channels); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = {{"weight", {output_.channels, own_}}, {"bias", {output_.channels}}},
            .state = {},
            .cache = cache_,
            .reads_input = at_hand()};
  }
  void prepare(Index rows) override { op_->prepare(rows); }

  // One rank adds the bias.
  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    Span bias = span_at(buffers.cache, no_bias_);
    if (!first_rank_) backend_.fill(bias, 0);
    const Tensor own = features(buffers, x.shape.n);
    if (some_)
      backend_.copy_channels(x, from_, own, 0, own_);
    else if (!at_hand())
      backend_.reshape(x, own);
    op_->forward(at_hand() ? flat(x) : own, part_of(buffers.params, weights_),
                 first_rank_ ? part_of(buffers.params, bias_) : bias, y);
    add_over_sample_group(buffers, y);
  }

  // All ranks of the group come to the gradient of the same bias, and one counts it.
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    const Tensor sum{dy.shape, span_at(buffers.cache, {sum_.first, backend_.activation_floats(dy.shape)})};
    backend_.reshape(dy, sum);
    add_over_sample_group(buffers, sum);
    const Tensor own = features(buffers, dy.shape.n);
    const Span db = span_at(buffers.grads, bias_);
    op_->backward_weights(at_hand() ? flat(x) : own, sum, span_at(buffers.grads, weights_), db);
    if (!first_rank_) backend_.fill(db, 0);
    if (dx.data.empty()) return;
    const ConstSpan w = part_of(buffers.params, weights_);
    if (at_hand()) return op_->backward_data(sum, w, {own.shape, dx.data});
    op_->backward_data(sum, w, own);
    if (!some_) return backend_.reshape(own, dx);
    backend_.fill(dx.data, 0);
    backend_.copy_channels(own, 0, dx, from_, own_);
  }

 private:
  bool at_hand() const { return features_.count == 0; }  // x is them, in the form of features
  ConstTensor flat(ConstTensor x) const { return {{.n = x.shape.n, .channels = own_}, x.data}; }
  Tensor features(const LayerBuffers& buffers, Index rows) const {
    const Shape shape{.n = rows, .channels = own_};
    return {shape, span_at(buffers.cache, {features_.first, at_hand() ? 0 : backend_.activation_floats(shape)})};
  }
  static ConstSpan part_of(ConstSpan params, const ArenaSpan& span) {
    return params.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count));
  }
  void add_over_sample_group(const LayerBuffers& buffers, Tensor x) {
    MRMF_CHECK(buffers.step.sample_sum != nullptr, "a dense layer on several ranks needs their sums");
    backend_.add_over(*buffers.step.sample_sum, x, span_at(buffers.cache, summands_));
  }

  Backend& backend_;
  Index own_;  // features
  Shape output_;
  ArenaSpan weights_, bias_;  // weights and bias of the layer's parameters
  bool first_rank_;
  bool some_ = false;  // x has other features, too
  Index from_ = 0, cache_ = 0;
  ArenaSpan sum_, summands_, no_bias_, features_;  // in the cache; the last is empty where x is this rank's features
  std::unique_ptr<WeightedOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_row_parallel_dense(Backend& backend, const Shape& in, const LayerSpec& spec,
                                               const PartitionedWeights& cut) {
  return std::make_unique<RowParallelDense>(backend, in, spec, cut);
}

}  // namespace mrmf
