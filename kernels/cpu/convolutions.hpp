// Convolutions of our own: direct, of few output positions, transposed, with max pooling and ReLU behind them or a
// batch norm before them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/operations.hpp"

namespace mrmf::cpu {

class NormSums;  // kernels/cpu/batch_norm.hpp

// Convolutions of our own, also fused with what is before or behind them, transposed ones, and the taps that they are
// made of.

/// The direct kernels (vector_kernels.hpp): products of plain runs of input, or of Winograd's transforms of them along
/// the last axis, or along the last two; or on AMX: of floats in three parts, plain or of Winograd's transforms along
/// the second axis, or of rounded ones. `set` is the instruction set that they are compiled for.
struct DirectKernels {
  enum class Algorithm { plain, winograd, winograd_planes, winograd_squares, amx, amx_winograd, amx_bf16 } algorithm;
  InstructionSet set;
  /// Bytes for a thread's copies of input planes, which are cut into bands of rows, and what goes with them in one
  /// loop; 0: half of the L2 cache.
  Index room = 0;
};

/// The gradient of a convolution's output, which a batch norm behind it makes where the convolution wants it.
struct MadeGradient {
  Shape shape;
  /// Makes lines [first, last) of the last axis, counted over all samples, from `to` on.
  std::function<void(Index first, Index last, float* to)> lines;
  /// Where the lines lie once they are made, which is once; the convolution may keep them elsewhere unless `wanted`.
  float* place = nullptr;
  bool wanted = false;  ///< behind the call
};
/// A convolution that goes plane by plane: what a batch norm behind it does with a plane can be done while that is in
/// the caches.
class PlanewiseConv : public WeightedOp {
 public:
  /// prepare() for backward_weights_making(), too, and for backward_making() with `data` unless that is null.
  virtual void prepare_making(Index rows, const PlanewiseConv* data) = 0;
  /// forward() that adds the positions of y to the moments as they are made.
  virtual void forward_adding(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, NormSums& moments) = 0;
  virtual void backward_weights_making(ConstTensor x, const MadeGradient& dy, Span dw, Span db) = 0;
  struct Gradients {
    ConstTensor x;
    ConstSpan w;
    Tensor dx;  ///< not where x is, or what dy is made of
    Span dw, db;
  };
  /// The same and the data gradient, by the kernels of `data`, in one loop: each plane of dy is used for both while the
  /// caches hold it, and is not stored. False, and nothing is done, where dx needs other planes, too, or the caches
  /// have no room.
  virtual bool backward_making(const Gradients& call, const MadeGradient& dy, PlanewiseConv& data) = 0;
};
/// The same behind the batch norm of a network's input.
class PlanewiseNormConv : public NormConvOp {
 public:
  virtual void prepare_making(Index rows) = 0;
  virtual void forward_adding(const StepContext& step, const Forward& call, NormSums& moments) = 0;
  virtual void backward_making(const Backward& call, const MadeGradient& dy) = 0;  ///< not of call.dy
};

/// Convolutions on the direct kernels, and the same behind a batch norm whose output is never stored. Null where they
/// do not serve: where the instruction set in use has not theirs, with dilation, for few positions in a plane, for
/// output channels that are no multiple of the lanes; Winograd's also with strides, and for other than three taps along
/// their axes, AMX's without has_amx() and for rows of input that are no multiple of its lanes.
std::unique_ptr<PlanewiseConv> make_direct_conv(DirectKernels kernels, const ConvGeometry& geometry,
                                                SharedWorkspace memory);
std::unique_ptr<PlanewiseNormConv> make_direct_norm_conv(DirectKernels kernels, const NormSettings& settings,
                                                         const ConvGeometry& geometry, SharedWorkspace memory);

/// Convolutions for which reading the weights takes the time. Null where all rows together have more than a few output
/// positions.
std::unique_ptr<WeightedOp> make_few_positions(const ConvGeometry& geometry, Index max_rows);

/// One dimension without padding: samples are read where they are. Others are copied by the thread that has them, so
/// they need a row for every thread, and have a largest size.
bool is_unpadded_line(const ConvGeometry& conv);
/// Whether a convolution, max pooling and ReLU can go in one pass: in one or two dimensions, with stride 1, without
/// dilation, pooled by windows of at most 255 positions that neither overlap nor leave gaps.
bool fused_conv_pool_serves(const ConvGeometry& conv, const PoolGeometry& pool);
struct FusedKernels {
  /// How forward gets its products: as sums of products; from factors rounded to bf16, which needs AVX-512 and
  /// has_bf16_products(); or as Winograd's, in one dimension, with three or four taps and windows of four.
  enum class Products { plain, bf16, winograd };
  InstructionSet set;
  Products products = Products::plain;
};
/// The same on the kernels for an instruction set (conv_pool_relu.cpp); null where Winograd's do not serve. requires:
/// fused_conv_pool_serves(), and a set that the processor has.
std::unique_ptr<ConvPoolOp> make_fused_conv_pool(FusedKernels kernels, const ConvGeometry& conv,
                                                 const PoolGeometry& pool);

// A transposed convolution for backends in host memory, made of their own convolution.

/// The convolution `conv` of `geometry` with its roles exchanged: see Backend::conv_transpose.
std::unique_ptr<WeightedOp> make_conv_transpose(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                                Index max_rows);

// The taps of a convolution's kernel, and the pairs of positions that each of them joins.

/// An output position and the input position that a tap multiplies for it.
struct TapPair {
  Index out = 0, in = 0;
};

/// A tap of the kernel, and where it meets the input.
struct Tap {
  Index number = 0;
  std::vector<TapPair> pairs;
};

/// In the kernel's order. Pairs on padding are left out.
std::vector<Tap> taps_of(const ConvGeometry& geometry);

// ConvNormOp, made of convolutions and the passes of batch norms.

/// Its convolutions: the passes of one (several may be the same), or where the network's input has a batch norm that
/// and the convolution behind it.
struct ConvNormParts {
  std::array<std::shared_ptr<WeightedOp>, 3> conv{};  ///< forward, data gradient, weight gradient
  std::unique_ptr<NormConvOp> norm_conv{};
};
std::unique_ptr<ConvNormOp> make_conv_norm(ConvNormParts parts, const ConvNorm& settings);

// NormConvOp for backends in host memory, made of their own batch norm and convolution.

struct NormConvParts {
  std::unique_ptr<NormOp> norm;
  std::unique_ptr<WeightedOp> conv;
};
std::unique_ptr<NormConvOp> make_norm_conv(NormConvParts parts, const ConvGeometry& geometry);

/// dgamma and dbeta from TapSums' sums and from dw taken with the normalised input. Then turns dw into the gradient of
/// the weights.
void norm_conv_gradients(const NormConvOp::Backward& b, const ConvGeometry& geometry, std::span<const double> sums);

/// sums(tap, out channel), in double: sums of dy over the output positions for which the tap lies inside the input.
class TapSums {
 public:
  explicit TapSums(const ConvGeometry& geometry);
  std::span<const double> operator()(ConstTensor dy);

  /// The same, plane by plane. Each plane is added to one part of the sums. No two threads add to one part at a time.
  void start(Index parts);
  void add_plane(Index part, Index plane, const float* dy);  ///< plane: counted over all samples
  std::span<const double> total();

 private:
  struct Range {
    Index begin, end;  ///< output positions along an axis
  };
  void add_line(const float* dy, double* line) const;

  ConvGeometry g_;
  Extent out_;
  std::array<std::vector<Range>, 3> ranges_;  // per axis and tap
  Index line_, plane_, volume_;               // number of sums for the taps along the last one, two and three axes
  Index stride_;                              // numbers per part: volume_, plane_ and line_
  std::vector<double> sums_;
};

}  // namespace mrmf::cpu
