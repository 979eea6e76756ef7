// Layers of untied weights: locally connected ones, and reconstruction ICA with local fields.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "layers/geometry_and_reach.hpp"
#include "layers/halo_exchange.hpp"
#include "layers/layer.hpp"
#include "layers/spec.hpp"

namespace mrmf {

// A convolution whose weights are untied: every output position has its own. Weights lie where their positions lie, so
// on a grid each rank has those of its block (layers/memory_layout.hpp), and the layer there is an ordinary one.

namespace {

class LocallyConnected final : public Layer {
 public:
  LocallyConnected(Backend& backend, const Shape& in, const LayerSpec& spec, const ConvGeometry& geometry)
      : geometry_(geometry),
        initialiser_(spec.initialiser),
        output_(output_shape(in, geometry.out(), geometry.out_channels)),
        weights_(static_cast<std::size_t>(product(geometry.out()) * geometry.weights())),
        op_(backend.locally_connected(geometry, in.n)) {}

  /// With the positions: weights of another number of them are others.
  std::string signature() const override {
    const int axes = output_.axes;
    return fmt::format("locally_connected {}->{} k{} s{} at {}", geometry_.in_channels, geometry_.out_channels,
                       to_string(geometry_.kernel, axes), to_string(geometry_.stride, axes),
                       to_string(output_.spatial, axes));
  }
  Shape output() const override { return output_; }
  /// weight (positions..., out, kernel..., in), bias (positions..., out)
  Footprint footprint() const override {
    const auto used = [&](const Extent& e) { return std::vector<Index>(e.end() - output_.axes, e.end()); };
    std::vector<Index> bias = used(output_.spatial);
    bias.push_back(geometry_.out_channels);
    std::vector<Index> weight = bias;
    for (const Index taps : used(geometry_.kernel)) weight.push_back(taps);
    weight.push_back(geometry_.in_channels);
    return {.params = {{"weight", std::move(weight)}, {"bias", std::move(bias)}}, .state = {}};
  }
  double flop() const override { return 2.0 * static_cast<double>(weights_); }
  void initialise(Rng& rng, Span params, Span) const override {
    const Index taps = product(geometry_.kernel);
    initialise_weights(initialiser_, {taps * geometry_.in_channels, taps * geometry_.out_channels}, rng,
                       params.first(weights_), biases_of(params));
  }
  bool updates_in_place() const override { return true; }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, buffers.params.first(weights_), biases_of(buffers.params), y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    begin_backward(buffers, x, y, dy, dx);
    end_backward(buffers, x, y, dy, dx);
  }
  void begin_backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward_data(dy, buffers.params.first(weights_), dx);
  }
  void end_backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor) override {
    if (!buffers.updated.empty()) {
      const bool moves = !buffers.velocity.empty();
      return op_->update(
          buffers.step, {x, dy}, nullptr,
          {buffers.updated.first(weights_), biases_of(buffers.updated),
           moves ? buffers.velocity.first(weights_) : Span{}, moves ? biases_of(buffers.velocity) : Span{}});
    }
    op_->backward_weights(x, dy, buffers.grads.first(weights_), biases_of(buffers.grads));
  }

 private:
  // A rank's block of a grid may have a gap behind them.
  template <class Values>
  Values biases_of(Values values) const {
    return values.subspan(weights_, static_cast<std::size_t>(output_.per_sample()));
  }

  ConvGeometry geometry_;
  Initialiser initialiser_;
  Shape output_;
  std::size_t weights_;
  std::unique_ptr<LocallyConnectedOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_locally_connected(Backend& backend, const Shape& in, const LayerSpec& spec,
                                              const LayerPosition&) {
  return std::make_unique<LocallyConnected>(backend, in, spec, locally_connected_geometry(in, spec));
}

// Reconstruction ICA (Le et al., ICA with Reconstruction Cost for Efficient Overcomplete Feature Learning, 2011) with
// untied local fields: each output position p encodes its field, z_p = W_p x_p, and the input is put together again of
// all fields, which overlap: y = sum over p of D_p' z_p, where D is W (tied) or a decoder of its own. Trained with the
// samples as labels, so that the loss is the distance of y from x.
//
// The penalty of the features is no part of y, so backward adds its gradient where that of z is. Features of a position
// may be pooled: what is sparse is then the root of a group's squares.
//
// With output = features the layer gives z instead, for the layers behind it, and has no objective of its own: another
// layer with the same weights (weights_of) may have it.
//
// On a grid a rank has the weights of the positions that it has of z. Fields reach into other blocks: their parts of y
// are added up by their owners, and in backward the owners give out the gradient, by the halo exchange of this layer.

namespace {

void give_length(Span w, Index count, float length) {
  for (Index first = 0; first < std::ssize(w); first += count) {
    double squares = 0;
    const Span row = w.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    for (const float value : row) squares += double{value} * value;
    for (float& value : row) value = squares > 0 ? static_cast<float>(value * (length / std::sqrt(squares))) : value;
  }
}

class ReconstructionIca final : public Layer {
 public:
  ReconstructionIca(Backend& backend, const Shape& in, const LayerSpec& spec, const ConvGeometry& geometry,
                    const HaloExchangeSettings* split)
      : backend_(backend),
        geometry_(geometry),
        in_(in),
        features_(output_shape(in, geometry.out(), spec.units)),
        output_(in),
        encodes_(spec.output == RicaOutput::features),
        own_decoder_(spec.decoder == Decoder::own),
        row_length_(spec.weights_of.empty() ? spec.row_length : 0),  // the layer that has them keeps it
        initialiser_(spec.initialiser),
        weights_(static_cast<std::size_t>(product(geometry.out()) * geometry.weights())),
        op_(backend.locally_connected(geometry, in.n)) {
    if (encodes_) {
      output_ = features_;
      return;
    }
    const Index groups = spec.groups == 0 ? spec.units : spec.groups;
    require(spec.units % groups == 0, spec, fmt::format("{} groups do not divide {} filters", groups, spec.units));
    Shape whole = in;
    if (split != nullptr) {
      exchange_ = make_halo_exchange(backend, *split);
      output_.spatial = split->from.owned.block(split->grid.coordinates(split->rank)).count;
      whole.spatial = split->shape.spatial;
    }
    // The loss is a mean over the values of a sample, and so is this.
    sparsity_ = {spec.sparsity / static_cast<float>(whole.per_sample()), spec.root_epsilon, spec.units / groups};
    const auto room = [&](Index floats) {
      const ArenaSpan span{cache_, floats};
      cache_ = aligned(span.end());
      return span;
    };
    z_ = room(backend.activation_floats(features_));
    dz_ = room(backend.activation_floats(features_));
    if (exchange_) field_ = room(backend.activation_floats(in_)), messages_ = room(exchange_->footprint().cache);
  }

  std::string signature() const override {
    const int axes = in_.axes;
    return fmt::format("rica {}->{} k{} s{} at {}{}", geometry_.in_channels, geometry_.out_channels,
                       to_string(geometry_.kernel, axes), to_string(geometry_.stride, axes),
                       to_string(features_.spatial, axes), own_decoder_ ? " own decoder" : "");
  }
  Shape output() const override { return output_; }
  /// weight, decoder: (positions..., out, kernel..., in)
  Footprint footprint() const override {
    const auto used = [&](const Extent& e) { return std::vector<Index>(e.end() - in_.axes, e.end()); };
    std::vector<Index> shape = used(features_.spatial);
    shape.push_back(geometry_.out_channels);
    for (const Index taps : used(geometry_.kernel)) shape.push_back(taps);
    shape.push_back(geometry_.in_channels);
    Footprint result{.params = {{"weight", shape}}, .state = {}, .cache = cache_};
    if (own_decoder_) result.params.push_back({"decoder", shape});
    return result;
  }
  double flop() const override { return (encodes_ ? 2.0 : 4.0) * static_cast<double>(weights_); }
  void initialise(Rng& rng, Span params, Span) const override {
    const Index taps = product(geometry_.kernel);
    const Fan fan{taps * geometry_.in_channels, taps * geometry_.out_channels};
    initialise_weights(initialiser_, fan, rng, params.first(weights_), {});
    if (row_length_ > 0) give_length(params.first(weights_), row(), row_length_);
    if (own_decoder_) std::ranges::copy(params.first(weights_), params.subspan(weights_).begin());
  }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    const Tensor z = encodes_ ? y : tensor(buffers, z_, features_, x.shape.n);
    op_->forward(x, encoder(buffers.params), {}, z);
    if (encodes_) return;
    if (!exchange_) return op_->backward_data(z, decoder(buffers.params), y);
    const Tensor part = tensor(buffers, field_, in_, x.shape.n);
    op_->backward_data(z, decoder(buffers.params), part);
    exchange_->backward(of_exchange(buffers), {}, {}, part, y);
  }

  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (encodes_) return backward_of_features(buffers, x, dy, dx);
    ConstTensor error = dy;
    if (exchange_) {
      const Tensor part = tensor(buffers, field_, in_, dy.shape.n);
      exchange_->forward(of_exchange(buffers), dy, part);
      error = part;
    }
    const Tensor z = tensor(buffers, z_, features_, x.shape.n), dz = tensor(buffers, dz_, features_, x.shape.n);
    op_->forward(error, decoder(buffers.params), {}, dz);
    backend_.add_sparsity(buffers.step, sparsity_, z, dz);
    if (!buffers.updated.empty()) return update(buffers, {x, dz}, {error, z}, dx);
    const Span dw = buffers.grads.first(weights_);
    op_->backward_weights(x, dz, dw, {});
    if (own_decoder_)
      op_->backward_weights(error, z, buffers.grads.subspan(weights_, weights_), {});
    else
      op_->accumulate_weight_gradient(error, z, dw);
    if (!dx.data.empty()) op_->backward_data(dz, encoder(buffers.params), dx);
  }

  bool updates_in_place() const override { return !(encodes_ && own_decoder_); }  // the decoder has no gradient there
  bool constrains() const override { return row_length_ > 0; }
  void constrain(Span params) override {
    if (row_length_ > 0) backend_.scale_rows(params.first(weights_), row(), row_length_);
  }

 private:
  // As those of a locally connected layer without biases.
  void backward_of_features(const LayerBuffers& buffers, ConstTensor x, ConstTensor dy, Tensor dx) {
    if (!dx.data.empty()) op_->backward_data(dy, encoder(buffers.params), dx);
    if (!buffers.updated.empty()) return op_->update(buffers.step, {x, dy}, nullptr, weights_from(buffers, 0));
    op_->backward_weights(x, dy, buffers.grads.first(weights_), {});
    if (own_decoder_) backend_.fill(buffers.grads.subspan(weights_, weights_), 0);
  }
  // The weights change last.
  void update(const LayerBuffers& buffers, const GradientProduct& encoding, const GradientProduct& decoding,
              Tensor dx) {
    if (!dx.data.empty()) op_->backward_data(encoding.dy, encoder(buffers.params), dx);
    op_->update(buffers.step, encoding, own_decoder_ ? nullptr : &decoding, weights_from(buffers, 0));
    if (own_decoder_) op_->update(buffers.step, decoding, nullptr, weights_from(buffers, weights_));
  }
  UntiedWeights weights_from(const LayerBuffers& buffers, std::size_t first) const {
    return {buffers.updated.subspan(first, weights_),
            {},
            buffers.velocity.empty() ? Span{} : buffers.velocity.subspan(first, weights_),
            {}};
  }
  Index row() const { return product(geometry_.kernel) * geometry_.in_channels; }
  ConstSpan encoder(ConstSpan params) const { return params.first(weights_); }
  ConstSpan decoder(ConstSpan params) const { return params.subspan(own_decoder_ ? weights_ : 0, weights_); }
  Tensor tensor(const LayerBuffers& buffers, const ArenaSpan& span, const Shape& shape, Index rows) const {
    const Shape of = shape.with_rows(rows);
    return {of, span_at(buffers.cache, {span.first, backend_.activation_floats(of)})};
  }
  LayerBuffers of_exchange(const LayerBuffers& buffers) const {
    return {buffers.step, {}, {}, {}, span_at(buffers.cache, messages_)};
  }

  Backend& backend_;
  ConvGeometry geometry_;
  Shape in_, features_, output_;
  bool encodes_;  // gives the features
  bool own_decoder_;
  float row_length_;  // 0: any
  Initialiser initialiser_;
  std::size_t weights_;
  SparsitySettings sparsity_;
  Index cache_ = 0;
  ArenaSpan z_, dz_, field_, messages_;  // in the cache; the last two of a grid
  std::unique_ptr<LocallyConnectedOp> op_;
  std::unique_ptr<Layer> exchange_;  // between the input's owners and those whose fields reach there; null: no grid
};

}  // namespace

std::unique_ptr<Layer> make_rica(Backend& backend, const Shape& in, const LayerSpec& spec, const LayerPosition&) {
  return std::make_unique<ReconstructionIca>(backend, in, spec, locally_connected_geometry(in, spec), nullptr);
}

std::unique_ptr<Layer> make_split_rica(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const HaloExchangeSettings& split) {
  return std::make_unique<ReconstructionIca>(backend, in, spec, locally_connected_geometry(in, spec), &split);
}

}  // namespace mrmf
