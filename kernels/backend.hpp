// What a backend provides: memory, operation objects for the shape-specialised work, plain functions for the rest.
//
// Implemented by kernels/reference (naive loops, double accumulation: the oracle of every test) and kernels/onednn
// (the CPU default), chosen at run time. Layers call these and nothing else.
//
// Conventions, for every function here:
//   * layout is channels-last: samples and activations (n, spatial..., c), filters (out, spatial..., in),
//     dense weights (out, in); float32.
//   * an operation is built for one geometry and a largest number of rows; a call may bring fewer rows (x.shape.n).
//   * results OVERWRITE their target, never accumulate. Nothing is allocated and no format is chosen in a call
//     with a number of rows seen before; prepare(rows) does that work ahead of time.
//   * NaN in gives NaN out, as in PyTorch: a diverged network shows in its loss.
//   * spans are memory of this backend; an operation borrows them for the call.
#pragma once

#include <memory>
#include <string>

#include "kernels/arena.hpp"
#include "kernels/geometry.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

enum class ActivationKind { relu, leaky_relu, tanh };
enum class LossKind { mse, mae };

/// Sums over the ranks that train one model together.
class RankSum {
 public:
  virtual ~RankSum() = default;
  virtual void sum(std::span<double> values) = 0;  ///< in place, the same result on every rank
};

/// Where a call stands in the run: what dropout and synchronised batch norm need to know.
struct Step {
  bool training = true;
  std::uint64_t seed = 0;               ///< seed of the run
  std::uint64_t number = 0;             ///< optimizer steps done so far by this model
  std::span<const std::int64_t> ids{};  ///< global index of each row's sample in its data set
  RankSum* ranks = nullptr;             ///< null: batch-norm statistics are this rank's own
};

/// Convolution with bias. y = conv(x, w) + b.
class ConvOp {
 public:
  virtual ~ConvOp() = default;
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) = 0;
  virtual void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) = 0;
  virtual void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) = 0;
};

/// Max or average pooling. `winner` is one byte per output element (position of the maximum inside its window,
/// axis order, last axis fastest; the first of equals, a NaN before all), written by forward, read by backward; empty
/// for average.
class PoolOp {
 public:
  virtual ~PoolOp() = default;
  virtual void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) = 0;
  virtual void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) = 0;
};

/// Slices of a batch norm's memory. Statistics are over rows and positions, per channel; the variance that
/// normalises is the biased one, the running variance gets the unbiased one (PyTorch's rule).
struct NormMemory {
  ConstSpan gamma, beta;
  Span running_mean, running_variance;  ///< updated by a training forward: r += momentum * (batch - r)
  Span mean, inverse_deviation;         ///< of this step, kept from forward to backward
};
struct NormSettings {
  Index channels = 1;
  float momentum = 0.1F;
  float epsilon = 1e-5F;
};

/// Batch norm over the channel axis (flat features are channels of one position).
/// With step.ranks the statistics and the backward sums are those of the global batch.
class NormOp {
 public:
  virtual ~NormOp() = default;
  virtual void forward(const Step& step, ConstTensor x, const NormMemory& memory, Tensor y) = 0;
  /// After a training forward. dgamma and dbeta hold this rank's part of the sum. dx may be empty.
  virtual void backward(const Step& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                        Span dbeta, Tensor dx) = 0;
};

/// Dense layer: y(n, out) = x(n, in) w(out, in)^T + b.
class DenseOp {
 public:
  virtual ~DenseOp() = default;
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) = 0;
  virtual void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) = 0;
  virtual void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) = 0;
};

/// A convolution, max pooling (window = stride) and ReLU in one pass; the convolution's full output is never stored.
/// `winner` as in PoolOp. y is the pooled, rectified output.
class ConvPoolOp {
 public:
  virtual ~ConvPoolOp() = default;
  virtual void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) = 0;
  /// dx may be empty (first layer).
  virtual void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                        Span dw, Span db, Tensor dx) = 0;
};

/// One update of a span of parameters (src/optimizer.hpp says what the numbers mean).
struct SgdStep {
  float learning_rate, momentum, weight_decay;
};
struct AdamStep {
  float learning_rate, beta1, beta2, epsilon;
  float weight_decay;              ///< Adam: added to the gradient
  float decoupled_decay;           ///< AdamW: w -= learning_rate * decoupled_decay * w, before the step
  float correction1, correction2;  ///< 1 - beta^t
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;         ///< "reference", "onednn"
  virtual std::string description() const = 0;  ///< library, version, instruction set, threads: for logs and results

  // Memory.
  virtual Arena allocate(Index count) = 0;
  virtual void swap(Span a, Span b) = 0;
  virtual void fill(Span x, float value) = 0;

  // Shape-specialised operations, for at most max_rows rows.
  virtual std::unique_ptr<ConvOp> conv(const ConvGeometry& geometry, Index max_rows) = 0;
  virtual std::unique_ptr<PoolOp> pool(const PoolGeometry& geometry, Index max_rows) = 0;
  virtual std::unique_ptr<NormOp> norm(const NormSettings& settings, Index max_rows) = 0;
  virtual std::unique_ptr<DenseOp> dense(Index in, Index out, Index max_rows) = 0;
  /// An offer: null where this backend has no fused form of the pair.
  virtual std::unique_ptr<ConvPoolOp> conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                                     Index max_rows) {
    (void)conv, (void)pool, (void)max_rows;
    return nullptr;
  }

  // Elementwise. y may be x, dx may be dy. activate_backward reads y, the output of activate. `slope` (above 0) is
  // leaky ReLU's for negative x, and tanh's at 0: y = slope * tanh(x).
  virtual void activate(ActivationKind kind, float slope, ConstSpan x, Span y) = 0;
  virtual void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) = 0;
  /// y = x * mask / (1 - rate), mask a pure function of (step.seed, step.number, layer, sample id, feature), see
  /// dropout_keeps() in kernels/formulas.hpp. The backward is the same call on dy. The identity when not training.
  virtual void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) = 0;

  // Loss. Returns the sum over rows of the per-sample mean over outputs (of squares or of magnitudes);
  // dy, if not empty, becomes the gradient of weight * that sum.
  virtual double loss(LossKind kind, ConstTensor y, ConstTensor target, float weight, Span dy) = 0;

  // Optimizer over an arena; spans of equal length.
  virtual void sgd(const SgdStep& step, Span w, ConstSpan dw, Span velocity) = 0;
  virtual void adam(const AdamStep& step, Span w, ConstSpan dw, Span m, Span v) = 0;
};

std::unique_ptr<Backend> make_reference_backend();
/// threads 0: OpenMP's own default.
std::unique_ptr<Backend> make_onednn_backend(int threads);

}  // namespace mrmf
