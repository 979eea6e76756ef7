// What a backend provides: memory, operation objects for the shape-specialised work, plain functions for the rest.
//
// Implemented by kernels/reference (naive loops, double accumulation: the oracle of every test), kernels/onednn (the
// CPU default) and kernels/cuda, chosen at run time. Layers call these and nothing else.
//
// Conventions, for every function here:
//   * layout is channels-last: samples and activations (n, spatial..., c), filters (out, spatial..., in),
//     dense weights (out, in); float32.
//   * an operation is built for one geometry and a largest number of rows; a call may bring fewer rows (x.shape.n).
//   * results OVERWRITE their target, never accumulate. Nothing is allocated and no format is chosen in a call
//     with a number of rows seen before; prepare(rows) does that work ahead of time.
//   * NaN in gives NaN out, as in PyTorch: a diverged network shows in its loss.
//   * spans are memory of this backend; an operation borrows them for the call. On a device the host cannot read them:
//     write() and read() move values. Activations (the tensors x, y, dx, dy) may be stored in another type and with
//     padded channels: their spans have activation_floats() floats, and only the backend looks inside. Everything else
//     (parameters, gradients, state, targets) is float32 in the order stated.
//   * on a device, calls return before the work is done, in the order of the calls; read() and finish() wait.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/arena.hpp"
#include "kernels/geometry.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

enum class ActivationKind { relu, leaky_relu, tanh };
enum class LossKind { mse, mae };

/// What sums over the ranks took, in seconds.
struct SumTime {
  double waited = 0;  ///< calculation stood still for them
  double hidden = 0;  ///< they went on beside calculation (0 where that cannot be told)
};

/// Sums over the ranks that train one model together, of values in the backend's memory; in place, the same result on
/// every rank.
class RankSum {
 public:
  virtual ~RankSum() = default;
  virtual void sum(std::span<double> values) = 0;
  /// Begins the sum of these gradients, which may go on beside the calls that follow...
  virtual void start(Span part) = 0;
  /// ...until here: what comes after sees the sums of all that was started.
  virtual void finish() = 0;
  /// What the sums took since the last call of this.
  virtual SumTime take_time() = 0;
};

/// The ranks that train one model together, as a backend needs them to make its own communicator.
struct Peers {
  int rank = 0, size = 1;
  std::function<void(std::span<std::byte>)> broadcast;  ///< from rank 0, collective
};

/// One update of a span of parameters (src/optimizer.hpp says what the numbers mean).
struct SgdStep {
  float learning_rate = 0, momentum = 0, weight_decay = 0;
};
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float weight_decay = 0;                  ///< Adam: added to the gradient
  float decoupled_decay = 0;               ///< AdamW: w -= learning_rate * decoupled_decay * w, before the step
  float correction1 = 1, correction2 = 1;  ///< 1 - beta^t
};

/// Where a call stands in the run, and every number that changes from step to step: a device backend that replays a
/// recorded step takes them from here (Backend::begin).
struct Step {
  bool training = true;
  std::uint64_t seed = 0;               ///< seed of the run
  std::uint64_t number = 0;             ///< optimizer steps done so far by this model
  std::span<const std::int64_t> ids{};  ///< global index of each row's sample in its data set
  RankSum* ranks = nullptr;             ///< null: batch-norm statistics are this rank's own
  Index index = 0;                      ///< of the step in its epoch: where keep() puts the loss
  float loss_weight = 1;                ///< of each row's loss in the gradient
  SgdStep sgd{};                        ///< of the update that ends the step: one of the two
  AdamStep adam{};
};

/// Convolution with bias. y = conv(x, w) + b. backward_data comes after forward with the same w.
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
/// for average. Output elements are the stored ones (Backend::stored).
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

/// A batch norm with what may follow it in one pass.
struct NormReluPool {
  NormSettings norm;
  Extent in{1, 1, 1};
  int axes = 0;
  float slope = 0;                   ///< 0: ReLU, above: leaky ReLU
  std::optional<PoolGeometry> pool;  ///< average, window = stride
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

/// Dense layer: y(n, out) = x(n, in) w(out, in)^T + b. backward_data comes after forward with the same w.
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
    Span normalised;  ///< as x: the batch norm's output, kept for backward
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
  virtual void prepare(Index rows) { (void)rows; }
  virtual void forward(const Step& step, const Forward& call) = 0;
  virtual void backward(const Backward& call) = 0;  ///< after a training forward
};

/// Where the host puts the samples and targets of the coming batch, and the same in the backend's memory. A device
/// backend copies one batch while it computes on the one before.
class Feed {
 public:
  struct HostBatch {
    Span x, targets;  ///< float32, (rows, spatial..., channels) and (rows, outputs)
  };
  struct Batch {
    ConstTensor x, targets;
  };
  virtual ~Feed() = default;
  virtual HostBatch host(Index rows) = 0;  ///< memory to fill; waits until it is free
  virtual Batch submit(Index rows) = 0;    ///< of what was filled; valid until the next submit
};

/// A data set in the backend's memory, of which steps pick their rows themselves.
class SampleTable {
 public:
  struct Settings {
    Shape samples;  ///< n: rows of the table
    Index outputs = 0;
    std::int64_t first = 0;  ///< id of row 0
    Index most_rows = 0;     ///< of a batch
  };
  virtual ~SampleTable() = default;
  /// Rows [row, row + n) from the host's memory, as Feed::HostBatch has them.
  virtual void fill(Index row, const Feed::HostBatch& rows) = 0;
  /// The rows of the step's ids; part of a recorded step. Valid until the next gather.
  virtual Feed::Batch gather(const Step& step) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;         ///< "reference", "onednn"
  virtual std::string description() const = 0;  ///< library, version, instruction set, threads: for logs and results

  // Memory.
  virtual Arena allocate(Index count) = 0;
  /// ConfigError where so many floats (for `what`) will not fit, before any is allocated.
  virtual void require_memory(Index floats, const std::string& what) { (void)floats, (void)what; }
  virtual void swap(Span a, Span b) = 0;
  virtual void fill(Span x, float value) = 0;
  virtual void write(ConstSpan host, Span x);  ///< from the host's memory
  virtual void read(ConstSpan x, Span host);   ///< to the host's memory, when all calls before are done
  /// The shape in which an activation is stored (its channels padded), and the floats of a span that holds it.
  virtual Shape stored(const Shape& shape) const { return shape; }
  virtual Index activation_floats(const Shape& shape) const { return shape.count(); }
  virtual void write_activation(ConstSpan host, Tensor x);  ///< on the host float32 and unpadded
  virtual void read_activation(ConstTensor x, Span host);
  virtual std::unique_ptr<Feed> feed(const Shape& samples, Index outputs);  ///< for batches of at most samples.n

  /// An offer: a feed whose host memory takes samples of a finer resolution, and averages each block of factors'
  /// neighbours on the way into the backend's own. Null where the host does that as well.
  virtual std::unique_ptr<Feed> averaging_feed(const Shape& fine, Index outputs, const Extent& factors) {
    return (void)fine, (void)outputs, (void)factors, nullptr;
  }
  /// Null where the backend has no memory of its own, or too little.
  virtual std::unique_ptr<SampleTable> table(const SampleTable::Settings& settings) { return (void)settings, nullptr; }

  // Steps.
  /// Makes the numbers of a step known. Before every step's first call.
  virtual void begin(const Step& step) { (void)step; }
  /// Runs the calls of one step. A device backend may record them at first and replay the record for later steps with
  /// the same key: addresses and shapes must then be the same, and all other numbers come from begin(). forget() drops
  /// the records.
  virtual void run(std::uint64_t key, const std::function<void()>& calls) { (void)key, calls(); }
  virtual void forget() {}
  virtual void finish() {}  ///< waits for all calls; FaultError if one failed
  /// True where a call is done when it returns, so that looking at its results costs nothing.
  virtual bool immediate() const { return true; }
  /// The ranks' sums over device memory; null: the host's own (MPI) serve.
  virtual std::unique_ptr<RankSum> rank_sum(const Peers& peers) { return (void)peers, nullptr; }

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
  /// An offer, too: batch norm, ReLU (slope 0) or leaky ReLU, and then average pooling where `pool` is given, in one
  /// pass over x; y is the last one's output, and backward recomputes what is between.
  virtual std::unique_ptr<NormOp> norm_relu_pool(const NormReluPool& settings, Index max_rows) {
    (void)settings, (void)max_rows;
    return nullptr;
  }
  /// An offer, too.
  virtual std::unique_ptr<NormConvOp> norm_conv(const NormSettings& norm, const ConvGeometry& conv, Index max_rows) {
    (void)norm, (void)conv, (void)max_rows;
    return nullptr;
  }
  /// y = x in another shape of as many elements per row; may be the same memory where the stored forms are equal.
  virtual void reshape(ConstTensor x, Tensor y);

  // Elementwise. y may be x, dx may be dy. activate_backward reads y, the output of activate. `slope` (above 0) is
  // leaky ReLU's for negative x, and tanh's at 0: y = slope * tanh(x).
  virtual void activate(ActivationKind kind, float slope, ConstSpan x, Span y) = 0;
  virtual void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) = 0;
  /// y = x * mask / (1 - rate), mask a pure function of (step.seed, step.number, layer, sample id, feature), see
  /// dropout_keeps() in kernels/formulas.hpp. The backward is the same call on dy. The identity when not training.
  virtual void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) = 0;

  // Loss. sum[0] becomes the sum over rows of the per-sample mean over outputs (of squares or of magnitudes); dy, if
  // not empty, the gradient of step.loss_weight * that sum. target is float32 and unpadded, sum one float.
  virtual void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum) = 0;
  /// history[step.index] = value[0]
  virtual void keep(const Step& step, ConstSpan value, Span history);

  // Optimizer over an arena, by step.sgd or step.adam; spans of equal length.
  virtual void sgd(const Step& step, Span w, ConstSpan dw, Span velocity) = 0;
  virtual void adam(const Step& step, Span w, ConstSpan dw, Span m, Span v) = 0;
};

std::unique_ptr<Backend> make_reference_backend();
/// threads 0: OpenMP's own default.
std::unique_ptr<Backend> make_onednn_backend(int threads);

}  // namespace mrmf
