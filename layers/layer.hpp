// The layer contract and the makers of layers. A layer is written once, for every backend and every resolution.
//
// A layer owns its operation objects but no tensor memory: the model owns the arenas and lends slices of them. So an
// all-reduce, an optimizer step, a checkpoint, a hash and a fusion act on spans, never on layers.
//
// Limits of the design: these methods and no more. The model is a list in the order of execution, whose layers may read
// any earlier output by name; no graph engine, registry, plug-ins or callbacks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/random.hpp"
#include "layers/spec.hpp"

namespace mrmf {

/// The next 64-byte boundary, in floats.
constexpr Index aligned(Index count) { return (count + 15) / 16 * 16; }

/// A span of an arena, in floats. Layers start on 64-byte boundaries; the gaps between parameters are zero and stay
/// so.
struct ArenaSpan {
  Index first = 0, count = 0;
  Index pitch = 0;  ///< pitch of a slice (Tensor::pitch), which goes from first to end()
  Index end() const { return first + count; }
};

/// The arena's floats in this span.
inline Span span_at(Span arena, const ArenaSpan& span) {
  MRMF_CHECK(span.first >= 0 && span.end() <= std::ssize(arena), "a span that is not in the arena");
  return arena.subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count));
}

/// This layer's slices of the model's arenas, valid for one call.
struct LayerBuffers {
  const StepContext& step;  ///< training or evaluation, and the position in the run
  ConstSpan params;         ///< trained values
  Span grads;               ///< their gradients; backward overwrites all of them
  Span state;               ///< kept but not trained (running mean and variance)
  Span cache;               ///< from forward to backward of the same step
  ConstSpan bias{};         ///< batch norm: of the convolution in front, which left it out of x; empty: x is complete
  /// Where the layer is updated in place: the parameters again, which backward updates by step.sgd, and their
  /// velocities (none without momentum). grads is empty then.
  Span updated{}, velocity{};
  /// Of a fused layer that ends a residual block: what it adds (y may be over it), and where backward puts the gradient
  /// of that, in memory that may be dy's.
  ConstTensor shortcut{};
  Tensor dshortcut{};
};

/// A named tensor of a layer's parameters or state, in arena order ("weight", "bias", "gamma", "running_mean", ...).
struct NamedTensor {
  std::string name;
  std::vector<Index> shape;
  Index count() const;
};

/// Which tensors of a layer's calls may be slices of a wider tensor's channels (Tensor::pitch).
struct AcceptedSlices {
  bool x = false;  ///< in forward, and in backward where that reads x
  bool y = false;  ///< in forward, and in backward where that reads y
  bool dy = false;
};

struct Footprint {
  std::vector<NamedTensor> params;
  std::vector<NamedTensor> state;
  Index cache = 0;            ///< floats, for the largest number of rows
  bool in_place = false;      ///< forward may write y over x, and backward dx over dy
  bool identity = false;      ///< y is x in another shape: always in place, without touching memory
  bool reads_output = false;  ///< backward reads y, so no later layer may overwrite it
  bool reads_input = true;    ///< backward reads x, so no later layer may overwrite it
  bool dx_is_dy = false;      ///< the gradient of every input is dy: no memory and no work
  AcceptedSlices accepted_slices = {};
  /// concat: the channels of each input, where these may lie in their slices of y before the call, and their gradients
  /// may be dy's slices.
  std::vector<Index> parts = {};
  /// exchange: the floats of y in front of x, if x may lie there before the call, and dx in dy.
  std::optional<Index> margin = {};
};

class Layer {
 public:
  virtual ~Layer() = default;
  /// Layers with equal signatures may swap parameters and state ("conv 3->30 k4").
  virtual std::string signature() const = 0;
  virtual Shape output() const = 0;  ///< for the largest number of rows, fixed at construction
  virtual Footprint footprint() const = 0;
  virtual double flop() const { return 0; }  ///< forward, one sample; a multiply-add counts as two; conv and dense only
  virtual void initialise(Rng& rng, Span params, Span state) const;  ///< default: nothing to initialise
  virtual void prepare(Index rows) { (void)rows; }  ///< makes plans for this number of rows before timing starts
  /// Whether its gradient is complete where backward computes it, so that backward can do with LayerBuffers::updated.
  virtual bool updates_in_place() const { return false; }
  /// After an update: brings parameters back to what they may be, such as rows of length 1.
  virtual bool constrains() const { return false; }
  virtual void constrain(Span params) { (void)params; }

  /// Writes all of y. x.shape.n rows, at most the number the layer was built for.
  virtual void forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) = 0;
  /// After forward of the same step. Overwrites buffers.grads and dx. dx.data is empty where x is the network's input.
  virtual void backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) = 0;

  /// forward and backward in two halves each, between which messages to other ranks are under way: a halo exchange's,
  /// and at the same time those of the layer that reads it. begin_forward takes of x what is
  /// LayerPosition::available_box, and begin_backward writes dx. By default all of forward is its second half, and all
  /// of backward its first.
  virtual void begin_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) { (void)buffers, (void)x, (void)y; }
  virtual void end_forward(const LayerBuffers& buffers, ConstTensor x, Tensor y) { forward(buffers, x, y); }
  virtual void begin_backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) {
    backward(buffers, x, y, dy, dx);
  }
  virtual void end_backward(const LayerBuffers& buffers, ConstTensor x, ConstTensor y, ConstTensor dy, Tensor dx) {
    (void)buffers, (void)x, (void)y, (void)dy, (void)dx;
  }
};

/// A layer of several inputs: add, concat. It has no parameters, and keeps nothing for backward. The model calls join()
/// and join_backward(); what every layer has, forward and backward, treats it as a layer of one input, whose output is
/// its input.
class Join : public Layer {
 public:
  /// Writes all of y. With Footprint::in_place, y may be the memory of x[0] or x[1]; with Footprint::parts any input
  /// may be its slice of y.
  virtual void join(std::span<const ConstTensor> x, Tensor y) = 0;
  /// Writes the gradient of every input, but for those with empty data.
  virtual void join_backward(ConstTensor dy, std::span<const Tensor> dx) = 0;

  void forward(const LayerBuffers&, ConstTensor x, Tensor y) override { join({&x, 1}, y); }
  void backward(const LayerBuffers&, ConstTensor, ConstTensor, ConstTensor dy, Tensor dx) override {
    join_backward(dy, {&dx, 1});
  }
};

/// spec.from names the inputs. ConfigError where their shapes do not go together, with the names and both shapes.
std::unique_ptr<Join> make_join(Backend& backend, std::span<const Shape> in, const LayerSpec& spec);

/// Where a layer is in its model, and where its input is in the sample.
struct LayerPosition {
  LayerPosition(std::uint64_t layer_index) : number(layer_index) {}  // NOLINT(google-explicit-constructor)
  std::uint64_t number;  ///< in the list: the key of a dropout's mask, so two dropouts differ
  /// Where the positions of the output begin in the sample; those of the input, too, unless the layer has windows.
  Extent output_begin{0, 0, 0};
  Extent sample_extent{0, 0, 0};  ///< the sample's size; all 0: the layer has all of it (grids: layers/partition.hpp)
  Extent output_extent{0, 0, 0};  ///< positions of the output here
  /// The box of the input that a batch norm's statistics are of; none: all of it.
  std::optional<Box> statistics_box{};
  /// The box of the input that is there before messages from other ranks arrive; none: all of it.
  std::optional<Box> available_box{};
};

/// Which activation a layer of this kind is; none: it is no activation.
std::optional<ActivationKind> activation_of(LayerKind kind);

/// A layer of any kind from its input shape (n = the largest number of rows) and its spec. ConfigError for an
/// impossible shape, with the layer's name and the sizes.
std::unique_ptr<Layer> make_layer(Backend& backend, const Shape& in, const LayerSpec& spec,
                                  const LayerPosition& position);

/// The fused convolution + max pool + ReLU as one layer with the convolution's parameters. Null if the backend offers
/// none for this geometry.
std::unique_ptr<Layer> make_conv_pool_relu(Backend& backend, const Shape& in, const LayerSpec& conv,
                                           const LayerSpec& pool);

/// Batch norm fused with the ReLU or leaky ReLU behind it and, if `pool` is given, the average pool behind that. One
/// layer with the batch norm's parameters; null if the backend offers none.
struct NormReluPoolSpecs {
  LayerSpec norm, relu;
  std::optional<LayerSpec> pool;
};
std::unique_ptr<Layer> make_norm_relu_pool(Backend& backend, const Shape& in, const NormReluPoolSpecs& specs);
/// What the backend is asked for; none where the pool does not go in the same pass. relu: none.
std::optional<NormReluPool> norm_relu_pool_settings(const Shape& in, const LayerSpec& norm,
                                                    const std::optional<LayerSpec>& relu,
                                                    const std::optional<LayerSpec>& pool);

/// Group norm or layer norm fused with the ReLU or leaky ReLU behind it: one layer with the norm's parameters.
std::unique_ptr<Layer> make_group_norm_relu(Backend& backend, const Shape& in, const LayerSpec& norm,
                                            const LayerSpec& relu, const LayerPosition& position);

/// The batch norm of a network's input fused with the convolution behind it: one layer that gives no dx. Null if the
/// backend offers none. It replaces two layers of the list: its parameters and gradients are those of the batch norm
/// and, from the next 64-byte boundary on, those of the convolution.
std::unique_ptr<Layer> make_norm_conv(Backend& backend, const Shape& in, const LayerSpec& norm, const LayerSpec& conv,
                                      const std::optional<Box>& counted = {});

/// A convolution fused with the batch norm of its output and, if given, the ReLU or leaky ReLU behind that and the
/// average pool; at the network's input maybe with the batch norm before it. Or with the batch norm, the `add` of a
/// residual block, and maybe its activation; it has a shortcut then. Null if the backend offers none. It replaces these
/// layers of the list: each has its parameters and gradients from the next 64-byte boundary on.
struct ConvNormSpecs {
  std::optional<LayerSpec> input_norm{};
  LayerSpec conv, norm;
  bool add = false;  ///< no pool then
  std::optional<LayerSpec> relu{}, pool{};
};
std::unique_ptr<Layer> make_conv_norm(Backend& backend, const Shape& in, const ConvNormSpecs& specs);

// What makes each kind of layer, defined in its kind's own file. make_layer() chooses among them by the list of
// kinds (layers/spec.hpp), so that a kind that nothing makes is not linked.

/// What make_layer() calls for a layer of its kind. Several kinds may have one; it finds its kind in the spec.
using LayerMaker = std::unique_ptr<Layer>(Backend& backend, const Shape& in, const LayerSpec& spec,
                                          const LayerPosition& position);
#define MRMF_MAKER(kind, maker, field, work) LayerMaker make_##maker;
MRMF_LAYER_KINDS(MRMF_MAKER)
#undef MRMF_MAKER

struct PartitionedWeights;    // layers/memory_layout.hpp
struct HaloExchangeSettings;  // layers/halo_exchange.hpp

/// rica on the ranks of a grid: x has the positions of `split.to`, y those that this rank owns.
std::unique_ptr<Layer> make_split_rica(Backend& backend, const Shape& in, const LayerSpec& spec,
                                       const HaloExchangeSettings& split);

// The dense layer behind a flatten on the ranks of a grid, row-parallel as in Megatron-LM (PyTorch's RowwiseParallel):
// the features are shared out. Each rank multiplies those that it has by their weights, and the products are added over
// the sample group. In our weights (outputs, features) a rank has columns.

/// x has this rank's features, as positions and channels, or all of them on every rank. y is whole on every rank. In
/// backward dy is added over the group first; the gradient of the weights is then that of this group's samples, and dx
/// that of this rank's features (zero for the others). Its parameters lie as ParameterLayout says. Needs
/// StepContext::sample_sum.
std::unique_ptr<Layer> make_row_parallel_dense(Backend& backend, const Shape& in, const LayerSpec& spec,
                                               const PartitionedWeights& cut);

}  // namespace mrmf
