// A convolution whose weights are untied: every output position has its own. Weights lie where their positions lie, so
// on a grid each rank has those of its block (layers/memory_layout.hpp), and the layer there is an ordinary one.
#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/makers.hpp"
#include "layers/spec.hpp"

namespace mrmf {
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

}  // namespace mrmf
