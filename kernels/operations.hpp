// The operations that training is made of: objects, each built by a Backend for one geometry and a largest number of
// rows, and plain functions; the list of both stands at the end. The conventions of kernels/backend.hpp hold here. Some
// operations do the work of several layers in one pass; where a backend offers none of these, the layers run one by
// one, with the same results.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/step_and_collectives.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// The precision of a GPU. fp32: exact multiplication; tf32: float32 in memory, tensor cores round factors to 10 bits
/// of mantissa; bf16: activations in bfloat16. Parameters, gradients, statistics and sums are float32 in all of them;
/// in bf16 a convolution's weight gradient is summed in float32 and rounded to bfloat16 once, when cuDNN stores it.
///
/// On a CPU, fp32 and tf32 are the same: all is float32. bf16 lets kernels of convolutions and dense layers round their
/// factors to bfloat16, where the processor has products of those (AVX512-BF16); memory stays float32.
enum class Precision { fp32, tf32, bf16 };

/// Geometry of a convolution over 1-3 spatial axes; unused leading axes have size and kernel 1.
struct ConvGeometry {
  Index in_channels = 1;
  Index out_channels = 1;
  Extent in{1, 1, 1};
  Extent kernel{1, 1, 1};
  Extent stride{1, 1, 1};
  Extent pad_before{0, 0, 0};
  Extent pad_after{0, 0, 0};
  Extent dilation{1, 1, 1};  ///< distance between neighbouring taps; 1 on axes with one tap
  bool bias = true;          ///< false: nothing is added to the sums, and b and db of the calls are empty

  Extent reach() const;  ///< positions from the first tap to the last: (kernel - 1) * dilation + 1 per axis
  Extent out() const;    ///< floor((in + pads - reach) / stride) + 1 per axis
  Index weights() const { return out_channels * product(kernel) * in_channels; }
};

enum class PoolKind { max, average };

/// Geometry of a pooling without padding; incomplete windows at the end are dropped (floor).
struct PoolGeometry {
  PoolKind kind = PoolKind::max;
  Index channels = 1;
  Extent in{1, 1, 1};
  Extent window{1, 1, 1};
  Extent stride{1, 1, 1};

  Extent out() const;
};

/// Whether an average is over so many positions of a sample, all of them, that threads should share them.
constexpr bool is_global_average(const PoolGeometry& g) {
  constexpr Index many = 256;
  return g.kind == PoolKind::average && g.window == g.in && product(g.window) > many;
}

/// Positions of a window of local contrast normalisation along an axis, at most.
inline constexpr Index kMostContrastWindow = 31;
/// Arrays of a float per position that it keeps.
inline constexpr Index kContrastFields = 5;

/// Local contrast normalisation (Le et al. 2012): with the mean over all channels of a window around each position,
/// weighted by distance, g = x - mean(x) and y = g / max(floor, root of mean(g^2)). Weights of positions outside of the
/// sample go to the others.
struct ContrastGeometry {
  Index channels = 1;
  Extent in{1, 1, 1};      ///< positions of x
  Extent window{1, 1, 1};  ///< odd
  float floor = 0.01F;
  Extent first{0, 0, 0};   ///< where the positions of x begin in the sample...
  Extent sample{1, 1, 1};  ///< ...of these sizes
  /// The positions of x that y has. x has all that are in windows around those in windows around these.
  Box out{};

  Box middle() const;  ///< the positions of x in windows around those of y
  /// The weight of a position so far from the middle of the window: a normal distribution whose deviation is a quarter
  /// of it.
  double weight(std::size_t axis, Index distance) const;
};

enum class UpsampleKind { nearest, linear };

/// Geometry of an upsampling by whole factors. nearest: every value is repeated. linear: between the centres of the
/// input's positions, which keep their value at the border (PyTorch's align_corners = false).
struct UpsampleGeometry {
  UpsampleKind kind = UpsampleKind::nearest;
  Index channels = 1;
  Extent in{1, 1, 1};
  Extent factor{1, 1, 1};

  Extent out() const;  ///< in * factor per axis
};

/// A convolution, tied or untied, y = conv(x, w) + b, or a dense layer, y(n, out) = x(n, in) w(out, in)^T + b.
/// backward_data of a dense layer comes after forward with the same w.
class WeightedOp {
 public:
  virtual ~WeightedOp() = default;
  virtual bool accepts_slices() const { return false; }  ///< whether y and dy may be slices (Tensor::pitch)
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) = 0;
  virtual void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) = 0;
  virtual void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) = 0;
};

/// Tensors whose product, summed over rows, is a gradient of untied weights.
struct GradientProduct {
  ConstTensor x, dy;
};
/// Untied weights and their velocities. b may be empty. Velocities are empty where step.sgd has no momentum.
struct UntiedWeights {
  Span w, b, w_velocity, b_velocity;
};

/// A locally connected layer: as a convolution, but with weights of its own at every output position: w is
/// (positions..., out, kernel..., in), b (positions..., out). b and db may be empty.
class LocallyConnectedOp : public WeightedOp {
 public:
  virtual void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) = 0;  ///< adds the gradient to dw
  /// Updates weights by step.sgd, as Backend::sgd() does with what backward_weights() makes of `first` and, unless it
  /// is null, accumulate_weight_gradient() adds of `second`; but keeps no gradients. The same numbers, to the last bit.
  virtual void update(const StepContext& step, const GradientProduct& first, const GradientProduct* second,
                      const UntiedWeights& weights) = 0;
};

/// The penalty of features that are to be sparse: weight * step.loss_weight * the sum of sqrt(epsilon + squares), where
/// squares are those of `pooled` neighbouring channels, added.
struct SparsitySettings {
  float weight = 0;
  float epsilon = 0.01F;
  Index pooled = 1;  ///< divides the channels
};

/// Local contrast normalisation of one geometry. `kept` is float32 memory of kContrastFields * rows * positions of x.
class ContrastOp {
 public:
  virtual ~ContrastOp() = default;
  virtual void forward(ConstTensor x, Span kept, Tensor y) = 0;
  /// After forward of the same x. dx is the gradient by way of the positions that y has here.
  virtual void backward(ConstTensor x, ConstTensor dy, Span kept, Tensor dx) = 0;
};

/// Max or average pooling, or upsampling. `winner` is one byte per output element (position of the maximum inside its
/// window, axis order, last axis fastest; the first of equals, a NaN before all), written by forward, read by backward;
/// empty for the others. Output elements are the stored ones (Backend::stored).
class PoolOp {
 public:
  virtual ~PoolOp() = default;
  /// Whether x of a pooling, y and dy of an upsampling may be slices (Tensor::pitch).
  virtual bool accepts_slices() const { return false; }
  virtual void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) = 0;
  virtual void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) = 0;
};

/// Slices of a batch norm's memory. Statistics are over rows and positions, per channel; the variance that
/// normalises is the biased one, the running variance gets the unbiased one (PyTorch's rule). `bias` belongs to x,
/// whose convolution left it out: the batch's mean takes it away again, so it only moves the running mean.
struct NormMemory {
  ConstSpan gamma, beta;
  Span running_mean, running_variance;  ///< updated by a training forward: r += momentum * (batch - r)
  Span mean, inverse_deviation;  ///< mean and inverse deviation of this step, kept from forward to backward; mean:
                                 ///< without the bias
  ConstSpan bias{};              ///< one per channel; empty: x is complete
};
struct NormSettings {
  Index channels = 1;
  float momentum = 0.1F;
  float epsilon = 1e-5F;
  Extent in{1, 1, 1};            ///< positions of x, needed only with...
  std::optional<Box> counted{};  ///< ...those that the statistics are of; none: all
};

/// A norm over each sample's own values, in groups of neighbouring channels over all positions. Training and evaluation
/// are the same. With step.sample_sum the positions are those of all ranks that share the sample. Of NormMemory it
/// wants no running statistics; mean and inverse_deviation have rows * groups values, and the variance is the biased
/// one.
struct GroupNormSettings {
  Index channels = 1;
  Index groups = 1;     ///< divides the channels
  Index positions = 1;  ///< positions of x
  float epsilon = 1e-5F;
  Index sample_positions = 0;  ///< positions of a whole sample; 0: x has all of them
  float slope = 1;             ///< below zero, of the ReLU (0) or leaky ReLU that goes in the same pass; 1: none
  /// Values of a group that the statistics are of.
  Index values() const { return (sample_positions > 0 ? sample_positions : positions) * (channels / groups); }
};

/// Batch norm over the channel axis (flat features are channels of one position).
/// With step.team_sum the statistics and the backward sums are those of the global batch. Also a norm of
/// GroupNormSettings.
class NormOp {
 public:
  virtual ~NormOp() = default;
  virtual bool accepts_slices() const { return false; }  ///< whether y may be a slice (Tensor::pitch)
  virtual void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) = 0;
  /// After a training forward. dgamma and dbeta hold this rank's part of the sum. dx may be empty.
  virtual void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                        Span dbeta, Tensor dx) = 0;
};

/// A batch norm with what may follow it in one pass.
struct NormReluPool {
  NormSettings norm;
  Extent in{1, 1, 1};
  int axes = 0;
  float slope = 0;                   ///< 0: ReLU, above: leaky ReLU
  std::optional<PoolGeometry> pool;  ///< average, window = stride
};

/// A convolution, max pooling (window = stride) and ReLU in one pass; the convolution's full output is never stored.
/// `winner` as in PoolOp. y is the pooled, rectified output.
class ConvPoolOp {
 public:
  virtual ~ConvPoolOp() = default;
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) = 0;
  /// dx may be empty (first layer).
  virtual void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                        Span dw, Span db, Tensor dx) = 0;
};

/// The batch norm of a network's input and the convolution behind it. Nobody wants the gradient of x, and dgamma and
/// dbeta follow from the gradient of the weights, so the convolution's data gradient is never computed.
class NormConvOp {
 public:
  struct Forward {
    ConstTensor x;
    const NormMemory& memory;
    ConstSpan w, b;
    Span normalised;  ///< as x, if keeps_normalised(): the batch norm's output, kept for backward
    Tensor y;
  };
  struct Backward {
    ConstTensor x, dy;
    const NormMemory& memory;
    ConstSpan w;
    Span normalised;             ///< used up
    Span dgamma, dbeta, dw, db;  ///< all of them this rank's part of the sum
  };
  virtual ~NormConvOp() = default;
  virtual bool keeps_normalised() const { return true; }  ///< whether the calls need memory for it
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(const StepContext& step, const Forward& call) = 0;
  virtual void backward(const Backward& call) = 0;  ///< after a training forward
};

/// A convolution and the batch norm of its output, with what may follow that: maybe an activation (slope 1: none) and
/// average pooling. And where it is a network's first, the batch norm of its input.
struct ConvNorm {
  std::optional<NormSettings> input;
  ConvGeometry conv;
  NormReluPool output;
  bool shortcut = false;  ///< a tensor like z is added to the norm's output, before the activation; no pool then
};

/// The operation of ConvNorm. z, the convolution's output, is kept from forward to backward; its gradient is made piece
/// by piece where the convolution's gradients want it.
class ConvNormOp {
 public:
  struct Forward {
    ConstTensor x;
    const NormMemory* input;  ///< null: no batch norm of the input
    ConstSpan w, b;
    const NormMemory& memory;  ///< of the batch norm of z
    Tensor z;
    Span kept;  ///< kept_floats() of the rows, from a boundary of 64 bytes on
    Tensor y;
    ConstTensor shortcut{};  ///< with a shortcut: what is added; y may be over it
  };
  struct Backward {
    ConstTensor x, dy;
    const NormMemory* input;
    ConstSpan w;
    const NormMemory& memory;
    Tensor z;                        ///< used up
    Span kept;                       ///< used up
    Span input_dgamma, input_dbeta;  ///< empty without `input`
    Span dw, db, dgamma, dbeta;      ///< all of them this rank's part of the sum
    Tensor dx;                       ///< empty: nobody wants it, as with `input`
    ConstTensor y{};                 ///< with a shortcut and an activation: what forward wrote
    Tensor dshortcut{};              ///< its gradient, always wanted; may be over dy
  };
  virtual ~ConvNormOp() = default;
  virtual bool accepts_slices() const { return false; }                  ///< whether y may be a slice (Tensor::pitch)
  virtual Index kept_floats(Index rows) const { return (void)rows, 0; }  ///< kept from forward to backward, beside z
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(const StepContext& step, const Forward& call) = 0;
  virtual void backward(const StepContext& step, const Backward& call) = 0;  ///< after a training forward
};

/// square and root are no layers of a network, but parts of some: y = slope * x^2 and y = sqrt(slope + x).
enum class ActivationKind { relu, leaky_relu, tanh, gelu, silu, softplus, sigmoid, square, root };
/// Whether the gradient follows from the input x; else it follows from the output y, and x may be overwritten.
constexpr bool gradient_reads_input(ActivationKind kind) {
  return kind == ActivationKind::gelu || kind == ActivationKind::silu || kind == ActivationKind::square;
}

/// mse, mae, huber: of numbers. cross_entropy: of classes that exclude each other (softmax). binary_cross_entropy: of
/// yes or no per output (sigmoid). dice: 1 less the overlap, of either of the last two.
enum class LossKind { mse, mae, huber, cross_entropy, binary_cross_entropy, dice };
inline constexpr std::size_t kLossKinds = 6;

/// What outputs and labels are: numbers, yes or no per output (labels from 0 to 1), or one of several classes.
enum class Task { regression, binary, classes };

struct DropoutSettings {
  std::uint64_t layer = 0;  ///< its number in the model: part of the mask's key
  float rate = 0;           ///< share of features that are dropped
  Extent first{0, 0, 0};    ///< where the positions of x begin in the sample...
  Extent sample{0, 0, 0};   ///< ...of these sizes; all 0: x has all of them

  /// The number of the sample's position that is (i, j, k) in x.
  MRMF_HD constexpr Index position(const Extent& x, Index i, Index j, Index k) const {
    // Not a comparison of arrays: the standard library's reaches memcmp, for which nvcc leaves a kernel empty,
    // silently.
    const Extent& s = sample[0] == 0 && sample[1] == 0 && sample[2] == 0 ? x : sample;
    return ((i + first[0]) * s[1] + j + first[1]) * s[2] + k + first[2];
  }
};

/// A loss: a weighted sum of kinds that belong to one task. docs/losses.md has the formulas.
struct LossSettings {
  std::array<float, kLossKinds> weights{1};  ///< by LossKind; 0: not in the sum
  float delta = 1;                           ///< huber: errors above it count linearly
  float smooth = 1;                          ///< dice: added to both sides of the fraction
  float gamma = 0;                           ///< cross-entropies: focal above 0, times (1 - p)^gamma of what is right
  std::vector<float> class_weights{};        ///< binary, classes: one per output channel; empty: all 1

  static LossSettings single(LossKind kind);
  float weight(LossKind kind) const { return weights[static_cast<std::size_t>(kind)]; }
  Task task() const;
  bool operator==(const LossSettings&) const = default;
};

/// A loss of outputs of one shape. The target has the positions of y. Its channels are those of y or, for classes, a
/// single one: the number of the class. As many as y has classes are shares of each class (of positions that were
/// averaged), with a sum of at most 1. Negative targets of binary and classes are ignored.
class LossOp {
 public:
  virtual ~LossOp() = default;
  /// sum[0] becomes step.share * the sum over rows of each sample's loss (of errors and entropies a mean
  /// over its positions, of dice one quotient); dy, if not empty,
  /// the gradient of step.loss_weight * that. target is float32 and unpadded, sum one float. With step.sample_sum, y
  /// has this rank's positions of samples that several share: losses are of whole samples, step.share is the rank's
  /// part of their positions, and dy the gradient of step.loss_weight * the whole loss.
  virtual void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) = 0;
};

/// Limits the L2 norm of so many float32 values, such as all gradients of a model.
class ClipOp {
 public:
  virtual ~ClipOp() = default;
  /// Where the norm of x is above `most`, x becomes x * most / norm. The order of the sum depends on the length alone,
  /// not on threads. x without a norm (NaN) stays as it is.
  virtual void run(Span x, float most) = 0;
  /// The same for values of which each rank has some in x: those in `counted`, parts of x, go into the norm, added over
  /// `ranks`.
  virtual void run_over(Span x, float most, std::span<const Span> counted, AllReduce& ranks);
};

// What every backend does, as OP(result, name, parameters): functions of Backend, which the class of each backend
// (kernels/*/backend.hpp) overrides: each is defined in the file of the operation, and without it a backend does not
// link.
#define MRMF_BACKEND_OPERATIONS(OP)                                                                                    \
  /* Operations for one geometry, for at most max_rows rows. */                                                        \
  OP(std::unique_ptr<WeightedOp>, conv, (const ConvGeometry& geometry, Index max_rows))                                \
  /* The transposed convolution: forward is backward_data of the convolution `geometry`, plus b of in_channels */      \
  /* values. x has that one's output's shape, y its input's, and w its form. */                                        \
  OP(std::unique_ptr<WeightedOp>, conv_transpose, (const ConvGeometry& geometry, Index max_rows))                      \
  /* Without padding and dilation. */                                                                                  \
  OP(std::unique_ptr<LocallyConnectedOp>, locally_connected, (const ConvGeometry& geometry, Index max_rows))           \
  OP(std::unique_ptr<PoolOp>, pool, (const PoolGeometry& geometry, Index max_rows))                                    \
  OP(std::unique_ptr<PoolOp>, upsample, (const UpsampleGeometry& geometry, Index max_rows))                            \
  OP(std::unique_ptr<ContrastOp>, contrast, (const ContrastGeometry& geometry, Index max_rows))                        \
  OP(std::unique_ptr<NormOp>, norm, (const NormSettings& settings, Index max_rows))                                    \
  OP(std::unique_ptr<NormOp>, group_norm, (const GroupNormSettings& settings, Index max_rows))                         \
  OP(std::unique_ptr<WeightedOp>, dense, (Index in, Index out, Index max_rows))                                        \
  /* The loss of outputs of this shape (n: the largest number of rows). */                                             \
  OP(std::unique_ptr<LossOp>, loss, (const LossSettings& settings, const Shape& output, Index target_channels))        \
                                                                                                                       \
  /* Offers: null where this backend has no fused form, or none for these settings. */                                 \
  OP(std::unique_ptr<ConvPoolOp>, conv_pool_relu,                                                                      \
     (const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows))                                             \
  /* Batch norm, ReLU (slope 0) or leaky ReLU, and then average pooling where `pool` is given, in one pass over x; */  \
  /* y is the last one's output, and backward recomputes what is between. */                                           \
  OP(std::unique_ptr<NormOp>, norm_relu_pool, (const NormReluPool& settings, Index max_rows))                          \
  OP(std::unique_ptr<NormConvOp>, norm_conv, (const NormSettings& norm, const ConvGeometry& conv, Index max_rows))     \
  OP(std::unique_ptr<ConvNormOp>, conv_norm, (const ConvNorm& settings, Index max_rows))                               \
                                                                                                                       \
  /* Exchange the values of two spans of equal length; set all of one. */                                              \
  OP(void, swap, (Span a, Span b))                                                                                     \
  OP(void, fill, (Span x, float value))                                                                                \
                                                                                                                       \
  /* Elementwise. y may be x, dx may be dy. activate_backward reads y, the output of activate, or its input x where */ \
  /* gradient_reads_input(). `slope` (above 0) is leaky ReLU's for negative x; of tanh, y = slope * tanh(x). */        \
  /* With Backend::accepts_slices(), x, y and what backward keeps may be slices. */                                    \
  OP(void, activate, (ActivationKind kind, float slope, ConstTensor x, Tensor y))                                      \
  OP(void, activate_backward, (ActivationKind kind, float slope, ConstTensor kept, ConstTensor dy, Tensor dx))         \
  /* y = x * mask / (1 - rate), mask a pure function of (step.seed, step.updates_done, layer, sample id, feature): */  \
  /* see DropoutMask in kernels/formulas.hpp. The backward is the same call on dy. The identity when not training. */  \
  OP(void, dropout, (const StepContext& step, const DropoutSettings& settings, ConstTensor x, Tensor y))               \
  /* y = a + b of activations of one shape, pads included; y may be a or b. With Backend::accepts_slices(), a and */   \
  /* b may be slices, if they are not y. */                                                                            \
  OP(void, add, (ConstTensor a, ConstTensor b, Tensor y))                                                              \
  /* Channels [to, to + count) of y become channels [from, from + count) of x, at every position; the others stay */   \
  /* what they are. Where those are y's last channels, its pads become zero. With Backend::accepts_slices(), x may */  \
  /* be a slice. */                                                                                                    \
  OP(void, copy_channels, (ConstTensor x, Index from, Tensor y, Index to, Index count))                                \
  /* Copies a box of positions of every row of x into y, or adds it; the other positions stay as they are. */          \
  /* x and y have the same channels. */                                                                                \
  OP(void, copy_box, (ConstTensor x, Tensor y, const BoxCopy& box))                                                    \
                                                                                                                       \
  /* dx += the gradient of the penalty of x; plain activations. */                                                     \
  OP(void, add_sparsity, (const StepContext& step, const SparsitySettings& settings, ConstTensor x, Tensor dx))        \
  /* Rows of `count` values become vectors of this length; those of zeros stay. */                                     \
  OP(void, scale_rows, (Span w, Index count, float length))                                                            \
                                                                                                                       \
  /* y += x, of float32 values in an arena; spans of equal length. The only sum into what is there. */                 \
  OP(void, accumulate, (ConstSpan x, Span y))                                                                          \
  /* Gradient clipping of spans of `count` values. */                                                                  \
  OP(std::unique_ptr<ClipOp>, clip, (Index count))                                                                     \
                                                                                                                       \
  /* The optimizer over an arena, by step.sgd, step.lion or step.adam[group]; spans of equal length. */                \
  /* velocity may be empty where step.sgd has no momentum. */                                                          \
  OP(void, sgd, (const StepContext& step, Span w, ConstSpan dw, Span velocity))                                        \
  OP(void, lion, (const StepContext& step, Span w, ConstSpan dw, Span m))                                              \
  /* Its two halves, between which ranks may add directions: dw becomes the direction; w moves against the sum. */     \
  OP(void, lion_directions, (const StepContext& step, Span dw, Span m))                                                \
  OP(void, lion_move, (const StepContext& step, Span w, ConstSpan directions))                                         \
  OP(void, adam, (const StepContext& step, std::size_t group, Span w, ConstSpan dw, Span m, Span v))

// An operation as Backend declares it, and as a backend's class does.
#define MRMF_PURE_OPERATION(Result, name, parameters) virtual Result name parameters = 0;
#define MRMF_OVERRIDE_OPERATION(Result, name, parameters) Result name parameters override;

}  // namespace mrmf
