// Convolution layers: plain, transposed, fused with max pooling and ReLU, and fused with the batch norm of the
// network's input.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "layers/geometry_and_reach.hpp"
#include "layers/halo_exchange.hpp"
#include "layers/layer.hpp"
#include "layers/spec.hpp"

namespace mrmf {
namespace {

/// "k4 s1", "k4 s1 same", "k4 s1 p1+2" (zeros before + after), "k3 s1 d2". The pads of "same" depend on the input size.
std::string window_signature(const ConvGeometry& g, int axes, bool same_padding) {
  std::string padding;
  if (same_padding)
    padding = " same";
  else if (g.pad_before != Extent{} || g.pad_after != Extent{})
    padding = fmt::format(" p{}+{}", to_string(g.pad_before, axes), to_string(g.pad_after, axes));
  const bool dilated = g.dilation != Extent{1, 1, 1};
  return fmt::format("k{} s{}{}{}", to_string(g.kernel, axes), to_string(g.stride, axes), padding,
                     dilated ? " d" + to_string(g.dilation, axes) : "");
}

/// "conv 3->30 k4 s1"
std::string conv_signature(const ConvGeometry& g, int axes, bool same_padding) {
  return fmt::format("conv {}->{} {}", g.in_channels, g.out_channels, window_signature(g, axes, same_padding));
}

/// weight (out, kernel per used axis, in), bias (out)
std::vector<NamedTensor> conv_tensors(const ConvGeometry& g, int axes) {
  std::vector<Index> shape{g.out_channels};
  shape.insert(shape.end(), g.kernel.end() - axes, g.kernel.end());
  shape.push_back(g.in_channels);
  return {{"weight", shape}, {"bias", {g.out_channels}}};
}

void initialise_conv(const ConvGeometry& g, Initialiser initialiser, Rng& rng, Span params) {
  const Fan fan{product(g.kernel) * g.in_channels, product(g.kernel) * g.out_channels};
  const auto weights = static_cast<std::size_t>(g.weights());
  initialise_weights(initialiser, fan, rng, params.first(weights), params.subspan(weights));
}

double conv_flop(const ConvGeometry& g) {
  return 2.0 * static_cast<double>(product(g.out())) * static_cast<double>(g.weights());
}

/// Where the gradient of a bias goes. That of one which the batch norm behind takes away again is zero.
Span bias_gradient(Backend& backend, const ConvGeometry& g, Span db) {
  if (g.bias) return db;
  backend.fill(db, 0);
  return {};
}

/// What a convolution and a transposed one share: weights, then a bias, over an operation. `geometry_` of a transposed
/// one is that of the convolution whose data gradient it is.
class ConvLayer : public Layer {
 public:
  Shape output() const override { return output_; }
  double flop() const override { return conv_flop(geometry_); }
  /// The fan that PyTorch and Keras take is the convolution's: of a transposed one kernel * its output channels.
  void initialise(Rng& rng, Span params, Span) const override { initialise_conv(geometry_, initialiser_, rng, params); }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, buffers.params.first(weights_), bias_of(buffers), y);
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    begin_backward(buffers, x, y, dy, dx);
    end_backward(buffers, x, y, dy, dx);
  }
  void begin_backward(const LayerBuffers& buffers, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    if (!dx.data.empty()) op_->backward_data(dy, buffers.params.first(weights_), dx);
  }
  void end_backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor) override {
    const Span db = bias_gradient(backend_, geometry_, buffers.grads.subspan(weights_));
    op_->backward_weights(x, dy, buffers.grads.first(weights_), db);
  }

 protected:
  ConvLayer(Backend& backend, const ConvGeometry& geometry, const LayerSpec& spec, const Shape& output,
            std::unique_ptr<WeightedOp> op)
      : backend_(backend),
        geometry_(geometry),
        same_padding_(spec.same_padding),
        initialiser_(spec.initialiser),
        weights_(static_cast<std::size_t>(geometry_.weights())),
        output_(output),
        op_(std::move(op)) {}

  ConstSpan bias_of(const LayerBuffers& buffers) const {
    return geometry_.bias ? buffers.params.subspan(weights_) : ConstSpan{};
  }

  Backend& backend_;
  ConvGeometry geometry_;
  bool same_padding_;
  Initialiser initialiser_;
  std::size_t weights_;
  Shape output_;
  std::unique_ptr<WeightedOp> op_;
};

class Conv final : public ConvLayer {
 public:
  Conv(Backend& backend, const Shape& in, const LayerSpec& spec, const ConvGeometry& geometry,
       const std::optional<Box>& here)
      : ConvLayer(backend, geometry, spec, output_shape(in, geometry.out(), geometry.out_channels),
                  backend.conv(geometry, in.n)),
        slabs_(here ? ConvSlabs::make(backend, in, geometry, *here) : nullptr) {}

  std::string signature() const override { return conv_signature(geometry_, output_.axes, same_padding_); }
  Footprint footprint() const override { return {.params = conv_tensors(geometry_, output_.axes), .state = {}}; }

  void prepare(Index rows) override {
    ConvLayer::prepare(rows);
    if (slabs_) slabs_->prepare();
  }
  void begin_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    if (slabs_) slabs_->begin(x, buffers.params.first(weights_), bias_of(buffers), y);
  }
  void end_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    if (!slabs_) return forward(buffers, x, y);
    slabs_->end(x, buffers.params.first(weights_), bias_of(buffers), y);
  }

 private:
  std::unique_ptr<ConvSlabs> slabs_;  // null: forward in one piece
};

/// The data gradient of a convolution as a layer: the geometry goes from this layer's output to its input. The weights
/// are (in, kernel, out), PyTorch's order with channels last.
class ConvTranspose final : public ConvLayer {
 public:
  ConvTranspose(Backend& backend, const Shape& in, const LayerSpec& spec, const ConvGeometry& geometry)
      : ConvLayer(backend, geometry, spec, output_shape(in, geometry.in, geometry.in_channels),
                  backend.conv_transpose(geometry, in.n)) {}

  std::string signature() const override {
    return fmt::format("conv_transpose {}->{} {}", geometry_.out_channels, geometry_.in_channels,
                       window_signature(geometry_, output_.axes, same_padding_));
  }
  Footprint footprint() const override {
    std::vector<NamedTensor> parts = conv_tensors(geometry_, output_.axes);
    parts.back().shape = {geometry_.in_channels};
    return {.params = std::move(parts),
            .state = {},
            .accepted_slices = {.y = op_->accepts_slices(), .dy = op_->accepts_slices()}};
  }
};

}  // namespace

std::unique_ptr<Layer> make_conv(Backend& backend, const Shape& in, const LayerSpec& spec,
                                 const LayerPosition& position) {
  return std::make_unique<Conv>(backend, in, spec, conv_geometry(in, spec), position.available_box);
}

std::unique_ptr<Layer> make_conv_transpose(Backend& backend, const Shape& in, const LayerSpec& spec,
                                           const LayerPosition&) {
  return std::make_unique<ConvTranspose>(backend, in, spec, conv_transpose_geometry(in, spec));
}

namespace {

class ConvPoolRelu final : public Layer {
 public:
  struct Parts {
    ConvGeometry conv;
    PoolGeometry pool;
    std::unique_ptr<ConvPoolOp> op;
  };
  ConvPoolRelu(Backend& backend, const Shape& in, const LayerSpec& conv, Parts parts)
      : conv_(parts.conv),
        same_padding_(conv.same_padding),
        initialiser_(conv.initialiser),
        weights_(static_cast<std::size_t>(conv_.weights())),
        output_(output_shape(in, parts.pool.out(), conv_.out_channels)),
        stored_(backend.stored(output_)),
        op_(std::move(parts.op)) {}

  /// The same as the convolution's: a fused and an unfused model may swap parameters.
  std::string signature() const override { return conv_signature(conv_, output_.axes, same_padding_); }
  Shape output() const override { return output_; }
  Footprint footprint() const override {
    return {.params = conv_tensors(conv_, output_.axes),
            .state = {},
            .cache = winner_floats(stored_.count()),
            .in_place = false,
            .reads_output = true};
  }
  double flop() const override { return conv_flop(conv_); }
  void initialise(Rng& rng, Span params, Span) const override { initialise_conv(conv_, initialiser_, rng, params); }

  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(x, buffers.params.first(weights_), buffers.params.subspan(weights_), y,
                 winners(buffers.cache, stored_.with_rows(y.shape.n).count()));
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    op_->backward(x, y, dy, winners(buffers.cache, stored_.with_rows(dy.shape.n).count()),
                  buffers.params.first(weights_), buffers.grads.first(weights_), buffers.grads.subspan(weights_), dx);
  }

 private:
  ConvGeometry conv_;
  bool same_padding_;
  Initialiser initialiser_;
  std::size_t weights_;
  Shape output_, stored_;
  std::unique_ptr<ConvPoolOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_conv_pool_relu(Backend& backend, const Shape& in, const LayerSpec& conv,
                                           const LayerSpec& pool) {
  if (conv.kind != LayerKind::conv || pool.kind != LayerKind::max_pool) return nullptr;
  ConvPoolRelu::Parts parts;
  parts.conv = conv_geometry(in, conv);
  parts.pool = pool_geometry(output_shape(in, parts.conv.out(), parts.conv.out_channels), pool);
  if (parts.pool.stride != parts.pool.window) return nullptr;
  parts.op = backend.conv_pool_relu(parts.conv, parts.pool, in.n);
  if (!parts.op) return nullptr;
  return std::make_unique<ConvPoolRelu>(backend, in, conv, std::move(parts));
}

namespace {

class NormConv final : public Layer {
 public:
  NormConv(Backend& backend, const Shape& in, const ConvGeometry& conv, std::unique_ptr<NormConvOp> op)
      : backend_(backend),
        in_(in),
        conv_(conv),
        channels_(static_cast<std::size_t>(in.channels)),
        weights_(static_cast<std::size_t>(conv.weights())),
        biases_(static_cast<std::size_t>(conv.out_channels)),
        output_(output_shape(in, conv.out(), conv.out_channels)),
        op_(std::move(op)) {}

  std::string signature() const override { return "batch_norm + " + conv_signature(conv_, output_.axes, false); }
  Shape output() const override { return output_; }
  /// The network's two layers list the parameters and state.
  Footprint footprint() const override {
    return {.params = {}, .state = {}, .cache = statistics() + normalised_floats(in_)};
  }
  double flop() const override { return conv_flop(conv_); }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    op_->forward(buffers.step, {.x = x,
                                .memory = memory(buffers),
                                .w = buffers.params.subspan(conv_first(), weights_),
                                .b = conv_.bias ? buffers.params.subspan(conv_first() + weights_, biases_) : Span{},
                                .normalised = normalised(buffers, x.shape),
                                .y = y});
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor, ConstTensor dy, Tensor dx) override {
    MRMF_CHECK(dx.data.empty(), "a batch norm fused with its convolution gives no dx");
    op_->backward({.x = x,
                   .dy = dy,
                   .memory = memory(buffers),
                   .w = buffers.params.subspan(conv_first(), weights_),
                   .normalised = normalised(buffers, x.shape),
                   .dgamma = buffers.grads.first(channels_),
                   .dbeta = buffers.grads.subspan(channels_, channels_),
                   .dw = buffers.grads.subspan(conv_first(), weights_),
                   .db = bias_gradient(backend_, conv_, buffers.grads.subspan(conv_first() + weights_, biases_))});
  }

 private:
  std::size_t conv_first() const { return static_cast<std::size_t>(aligned(2 * in_.channels)); }
  Index statistics() const { return aligned(2 * in_.channels); }
  Index normalised_floats(const Shape& shape) const { return op_->keeps_normalised() ? shape.count() : 0; }
  Span normalised(const LayerBuffers& buffers, const Shape& shape) const {
    return buffers.cache.subspan(static_cast<std::size_t>(statistics()),
                                 static_cast<std::size_t>(normalised_floats(shape)));
  }
  NormMemory memory(const LayerBuffers& buffers) const {
    return {.gamma = buffers.params.first(channels_),
            .beta = buffers.params.subspan(channels_, channels_),
            .running_mean = buffers.state.first(channels_),
            .running_variance = buffers.state.subspan(channels_, channels_),
            .mean = buffers.cache.first(channels_),
            .inverse_deviation = buffers.cache.subspan(channels_, channels_)};
  }

  Backend& backend_;
  Shape in_;
  ConvGeometry conv_;
  std::size_t channels_, weights_, biases_;
  Shape output_;
  std::unique_ptr<NormConvOp> op_;
};

}  // namespace

std::unique_ptr<Layer> make_norm_conv(Backend& backend, const Shape& in, const LayerSpec& norm, const LayerSpec& conv,
                                      const std::optional<Box>& counted) {
  const ConvGeometry geometry = conv_geometry(in, conv);
  require_within(counted, in);
  std::unique_ptr<NormConvOp> op =
      backend.norm_conv({in.channels, norm.momentum, norm.epsilon, in.spatial, counted}, geometry, in.n);
  if (!op) return nullptr;
  return std::make_unique<NormConv>(backend, in, geometry, std::move(op));
}

namespace {

/// Where the values of a layer lie that is one of several in a fused one: two for each channel of a batch norm, one
/// kind after the other.
struct Channels {
  std::size_t first, count;
  template <class AnySpan>
  AnySpan half(AnySpan all, std::size_t number) const {
    return all.subspan(first + number * count, count);
  }
};

class ConvNormLayer final : public Layer {
 public:
  ConvNormLayer(Backend& backend, const Shape& in, const ConvNorm& settings, std::unique_ptr<ConvNormOp> op)
      : backend_(backend),
        conv_(settings.conv),
        weights_(static_cast<std::size_t>(conv_.weights())),
        z_(output_shape(in, conv_.out(), conv_.out_channels)),
        output_(settings.output.pool ? output_shape(z_, settings.output.pool->out(), z_.channels) : z_),
        shortcut_(settings.shortcut),
        activates_(settings.output.slope != 1),
        op_(std::move(op)) {
    const auto place = [](Index& end, Index count) {
      return static_cast<std::size_t>(std::exchange(end, aligned(end + count)));
    };
    const auto outs = static_cast<std::size_t>(conv_.out_channels), ins = static_cast<std::size_t>(in.channels);
    Index params = 0, state = 0;
    if (settings.input)
      input_ = {place(params, 2 * in.channels), ins}, input_state_ = {place(state, 2 * in.channels), ins};
    conv_first_ = place(params, conv_.weights() + conv_.out_channels);
    norm_ = {place(params, 2 * conv_.out_channels), outs};
    state_ = {place(state, 2 * conv_.out_channels), outs};
    z_first_ = state;
  }

  std::string signature() const override { return conv_signature(conv_, output_.axes, false) + " + batch_norm"; }
  Shape output() const override { return output_; }
  /// The network's layers list the parameters and state. What norms keep lies as the state does; z is behind it.
  Footprint footprint() const override {
    return {.params = {},
            .state = {},
            .cache = kept_first() + op_->kept_floats(z_.n),
            .reads_output = shortcut_ && activates_,
            .accepted_slices = {.y = op_->accepts_slices() && !shortcut_}};
  }
  double flop() const override { return conv_flop(conv_); }
  void prepare(Index rows) override { op_->prepare(rows); }

  void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) override {
    const NormMemory input = input_memory(buffers);
    op_->forward(buffers.step, {.x = x,
                                .input = has_input() ? &input : nullptr,
                                .w = weights(buffers.params),
                                .b = conv_.bias ? biases(buffers.params) : ConstSpan{},
                                .memory = norm_memory(buffers),
                                .z = z(buffers, x.shape.n),
                                .kept = kept(buffers, x.shape.n),
                                .y = y,
                                .shortcut = buffers.shortcut});
  }
  void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) override {
    const NormMemory input = input_memory(buffers);
    const auto of_input = [&](std::size_t half) { return has_input() ? input_.half(buffers.grads, half) : Span{}; };
    op_->backward(buffers.step, {.x = x,
                                 .dy = dy,
                                 .input = has_input() ? &input : nullptr,
                                 .w = weights(buffers.params),
                                 .memory = norm_memory(buffers),
                                 .z = z(buffers, x.shape.n),
                                 .kept = kept(buffers, x.shape.n),
                                 .input_dgamma = of_input(0),
                                 .input_dbeta = of_input(1),
                                 .dw = weights(buffers.grads),
                                 .db = bias_gradient(backend_, conv_, biases(buffers.grads)),
                                 .dgamma = norm_.half(buffers.grads, 0),
                                 .dbeta = norm_.half(buffers.grads, 1),
                                 .dx = dx,
                                 .y = y,
                                 .dshortcut = buffers.dshortcut});
  }

 private:
  bool has_input() const { return input_.count > 0; }
  template <class AnySpan>
  AnySpan weights(AnySpan all) const {
    return all.subspan(conv_first_, weights_);
  }
  template <class AnySpan>
  AnySpan biases(AnySpan all) const {
    return all.subspan(conv_first_ + weights_, norm_.count);
  }
  Tensor z(const LayerBuffers& buffers, Index rows) const {
    const Shape shape = z_.with_rows(rows);
    return {shape, buffers.cache.subspan(static_cast<std::size_t>(z_first_), static_cast<std::size_t>(shape.count()))};
  }
  Index kept_first() const { return aligned(z_first_ + z_.count()); }
  Span kept(const LayerBuffers& buffers, Index rows) const {
    return buffers.cache.subspan(static_cast<std::size_t>(kept_first()),
                                 static_cast<std::size_t>(op_->kept_floats(rows)));
  }
  static NormMemory memory(const LayerBuffers& b, const Channels& params, const Channels& state, ConstSpan bias) {
    return {params.half(b.params, 0),
            params.half(b.params, 1),
            state.half(b.state, 0),
            state.half(b.state, 1),
            state.half(b.cache, 0),
            state.half(b.cache, 1),
            bias};
  }
  NormMemory input_memory(const LayerBuffers& b) const { return memory(b, input_, input_state_, {}); }
  NormMemory norm_memory(const LayerBuffers& b) const {
    return memory(b, norm_, state_, conv_.bias ? ConstSpan{} : biases(b.params));
  }

  Backend& backend_;
  ConvGeometry conv_;
  std::size_t weights_;
  Shape z_, output_;
  bool shortcut_, activates_;
  std::unique_ptr<ConvNormOp> op_;
  Channels input_{}, input_state_{}, norm_{}, state_{};  // count 0: no batch norm of the input
  std::size_t conv_first_ = 0;
  Index z_first_ = 0;
};

}  // namespace

std::unique_ptr<Layer> make_conv_norm(Backend& backend, const Shape& in, const ConvNormSpecs& specs) {
  if (in.axes == 0) return nullptr;
  ConvNorm settings{.input = {}, .conv = conv_geometry(in, specs.conv), .output = {}, .shortcut = specs.add};
  const Shape z = output_shape(in, settings.conv.out(), settings.conv.out_channels);
  const auto output = norm_relu_pool_settings(z, specs.norm, specs.relu, specs.pool);
  if (!output) return nullptr;
  settings.output = *output;
  if (const auto& norm = specs.input_norm)
    settings.input = NormSettings{in.channels, norm->momentum, norm->epsilon, in.spatial, {}};
  std::unique_ptr<ConvNormOp> op = backend.conv_norm(settings, in.n);
  if (!op) return nullptr;
  return std::make_unique<ConvNormLayer>(backend, in, settings, std::move(op));
}

}  // namespace mrmf
