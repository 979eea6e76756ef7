#include <fmt/format.h>

#include "layers/geometry.hpp"
#include "layers/layer.hpp"
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

std::unique_ptr<Layer> make_dense(Backend& backend, const Shape& in, const LayerSpec& spec) {
  return std::make_unique<Dense>(backend, in, spec);
}

}  // namespace mrmf
