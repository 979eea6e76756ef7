// The CUDA backend's own kernels: the layout of activations in device memory, and the functions that enqueue work.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/backend.hpp"
#include "kernels/formulas.hpp"
#include "kernels/operations.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cuda {

/// The layout of activations in device memory: channels-last as everywhere, in the storage type. Channels are padded to
/// whole vectors of 16 bytes. Pad channels hold zeros, in values and in gradients.
struct Storage {
  bool bf16 = false;  ///< else float32
  Index pad = 4;      ///< channels are a multiple of this, the elements in 16 bytes

  static Storage of(bool bf16) { return {bf16, bf16 ? 8 : 4}; }

  Index channels(Index c) const { return vectors(c) * pad; }
  /// Vectors of 16 bytes that hold the channels of one position.
  Index vectors(Index c) const { return (c + pad - 1) / pad; }
  Index bytes() const { return bf16 ? 2 : 4; }  ///< bytes of one element

  Shape stored(Shape shape) const {
    shape.channels = channels(shape.channels);
    return shape;
  }
  /// Floats of a span that holds an activation: four to each vector.
  Index floats(const Shape& shape) const { return shape.n * product(shape.spatial) * vectors(shape.channels) * 4; }
};

/// First argument of every function that enqueues work on activations: the work's stream, and the storage of the
/// activations it touches.
struct Work {
  cudaStream_t stream = nullptr;
  Storage storage{};
};

/// A step's numbers as kernels read them from device memory, so that a captured step can be replayed with new ones.
struct StepBlock {
  std::uint64_t seed = 0, number = 0;
  std::int64_t index = 0;
  float loss_weight = 1;        ///< weight of the share's losses
  float whole_loss_weight = 1;  ///< weight of whole samples' losses
  float share = 1;
  SgdStep sgd{};
  LionStep lion{};
  std::array<AdamStep, 2> adam{};

  static StepBlock of(const StepContext& step) {
    return {step.seed, step.updates_done, step.batch_index, step.loss_weight * step.share, step.loss_weight, step.share,
            step.sgd,  step.lion,         step.adam};
  }
};

// Activations, dropout, sums and channels of stored activations; fill and swap of float memory.

/// y may be x, dx may be dy. `kept`: y, or x where gradient_reads_input().
void activate(const Work& work, ActivationKind kind, float slope, const Shape& shape, const void* x, void* y);
void activate_backward(const Work& work, ActivationKind kind, float slope, const Shape& shape, const void* kept,
                       const void* dy, void* dx);

/// A dropout layer, and where its kernel finds the step's numbers and the samples' ids.
struct DropoutWork {
  DropoutSettings settings{};
  const StepBlock* step = nullptr;
  const std::int64_t* ids = nullptr;
};
/// y = x * mask / (1 - rate) while training; y may be x. The mask counts logical features, whatever the padding.
void dropout(const Work& work, const DropoutWork& dropout, const Shape& shape, const void* x, void* y);

/// y = a + b, pads included; y may be a or b.
void add(const Work& work, Index vectors, const void* a, const void* b, void* y);

/// Some channels of x (stored, of shape `of`) to become channels of y: those of `shape`, from `to` on.
struct ChannelCopy {
  Shape of;
  Index from = 0, to = 0, count = 0;
};
/// Leaves the other channels of y. Its pads become zero where its last channel is among those written.
void copy_channels(const Work& work, const ChannelCopy& copy, const void* x, const Shape& shape, void* y);

/// A box of positions of every row of x becomes one of y, pads included, or is added to it.
void copy_box(const Work& work, const BoxCopy& box, const Shape& of, const void* x, const Shape& shape, void* y);

/// y = x; does nothing when they are the same memory.
void copy(const Work& work, Index vectors, const void* x, void* y);

void fill(cudaStream_t stream, Span x, float value);
void swap(cudaStream_t stream, Span a, Span b);

// The loss of a batch and its gradient, and the history of losses.

struct LossWork {
  Task task = Task::regression;
  ErrorLoss errors{};  ///< regression: the kinds' weights
  Focal focal;
  float entropy = 0, dice = 0, smooth = 1;  ///< else: weights of the cross-entropy of this task, and of dice
  Index rows = 0, positions = 1;            ///< samples, and positions of each
  Index channels = 1, target_channels = 1;  ///< channels and target channels of a position
  const float* class_weights = nullptr;     ///< one per channel, in device memory; null: all 1
  const StepBlock* step = nullptr;          ///< has the gradient's weight
  void* scratch = nullptr;                  ///< loss_bytes() for at least as many rows
  AllReduce* sample_sum = nullptr;          ///< sums over the ranks that share the samples; null: y has all of them

  static LossWork of(const LossSettings& settings, const Shape& output, Index target_channels);
};
std::size_t loss_bytes(const Storage& storage, const LossWork& loss);

/// sum[0] = sum over rows of each sample's loss. dy (stored, pads zero), unless null, is its gradient times the weight.
/// y is stored; target is float32 and unpadded.
void loss(const Work& work, const LossWork& loss, const void* y, const float* target, void* dy, float* sum);

/// history[step->index] = value[0]
void keep(cudaStream_t stream, const StepBlock* step, const float* value, float* history);

/// y += x, of equal length.
void accumulate(cudaStream_t stream, ConstSpan x, Span y);

/// x *= most / norm where the norm of x is above `most`; `scratch` has clip_bytes() for at least as many values.
void clip(cudaStream_t stream, Span x, float most, void* scratch);
/// The same where each rank has some of the values in x: the norm is that of those in `counted`, parts of x, of all
/// ranks.
void clip_over(cudaStream_t stream, Span x, float most, std::span<const Span> counted, AllReduce& ranks, void* scratch);
std::size_t clip_bytes(Index count);

// Updates of parameters in float32 arenas; their numbers come from the step block.

/// Spans of equal length. `group` is an index of step->adam.
void sgd(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan dw, Span velocity);
void lion(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan dw, Span m);
void lion_directions(cudaStream_t stream, const StepBlock* step, Span dw, Span m);
void lion_move(cudaStream_t stream, const StepBlock* step, Span w, ConstSpan directions);
void adam(cudaStream_t stream, const StepBlock* step, std::size_t group, Span w, ConstSpan dw, Span m, Span v);

// Between the program's form of values (float32, unpadded) and the stored one. All memory is the device's.

/// y (stored) from x (float32, unpadded) of `shape`, averaging each block of factors' neighbours. The factors divide
/// the axes; {1, 1, 1} only converts.
void import_activation(const Work& work, const Shape& shape, const Extent& factors, const float* x, void* y);

/// y (float32, unpadded) from x (stored) of `shape`.
void export_activation(const Work& work, const Shape& shape, const void* x, float* y);

/// Weights (out, taps, in); a dense layer has one tap.
struct WeightShape {
  Index out = 1, taps = 1, in = 1;
  /// Elements of the packed form: out and in padded to whole vectors.
  Index packed(const Storage& storage) const { return storage.channels(out) * taps * storage.channels(in); }
};
/// From float32 to the storage type, with out and in padded with zeros.
void pack_weights(const Work& work, const WeightShape& shape, const float* w, void* packed);
/// From padded float32, as in a dense layer's gradient of packed weights.
void unpack_weights(const Work& work, const WeightShape& shape, const float* packed, float* w);
/// From the packed form, as in a convolution's gradient of packed weights.
void unpack_stored_weights(const Work& work, const WeightShape& shape, const void* packed, float* w);

/// y = x in another shape with as many elements per sample, both stored. With equal_form() this is a plain copy.
void reshape(const Work& work, const Shape& from, const void* x, const Shape& to, void* y);
bool equal_form(const Storage& storage, const Shape& from, const Shape& to);

/// Rows of a multiple of 4 bytes; row 0 has the id `first`.
struct RowTable {
  const void* rows = nullptr;
  Index row_bytes = 0;
  std::int64_t first = 0;
};
/// Row i of y = the table's row with id ids[i].
void gather_rows(cudaStream_t stream, const RowTable& table, Index rows, const std::int64_t* ids, void* y);

// Max and average pooling of stored activations.

/// y (n samples, stored) from x. `winner` gets one byte per stored element of y; null for average pooling.
void pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const void* x, void* y,
                  std::uint8_t* winner);

/// Writes every element of dx; windows may overlap or leave gaps. No atomics: each dx gathers from its own windows.
void pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const void* dy, const std::uint8_t* winner,
                   void* dx);

// Upsampling of stored activations.

/// y (n samples, stored) from x, and dx from dy. Each element gathers what it needs; no atomics.
void upsample_forward(const Work& work, const UpsampleGeometry& geometry, Index n, const void* x, void* y);
void upsample_backward(const Work& work, const UpsampleGeometry& geometry, Index n, const void* dy, void* dx);

// Locally connected layers on stored activations: weights (positions..., out, kernel..., in) and biases
// (positions..., out) are float32 and unpadded.

struct LocalForwardData {
  const void* x;
  const float *w, *b;
  void* y;
};
void local_forward(const Work& work, const ConvGeometry& geometry, Index n, const LocalForwardData& data);
/// Writes every element of dx.
void local_backward_data(const Work& work, const ConvGeometry& geometry, Index n, const void* dy, const float* w,
                         void* dx);
struct LocalWeightsData {
  const void *x, *dy;
  bool add;        ///< to what dw has
  float *dw, *db;  ///< db null: nobody wants it
};
struct LocalUpdateData {
  const StepBlock* step = nullptr;
  GradientProduct first;
  const GradientProduct* second = nullptr;  ///< null: none
  UntiedWeights weights;
};
/// Updates weights and biases by the gradient, which nobody keeps.
void local_update(const Work& work, const ConvGeometry& geometry, const LocalUpdateData& data);
void local_backward_weights(const Work& work, const ConvGeometry& geometry, Index n, const LocalWeightsData& data);

/// Local contrast normalisation; `kept` as ContrastOp has it.
void contrast_forward(const Work& work, const ContrastGeometry& geometry, Index n, const void* x, Span kept, void* y);
struct ContrastBackwardData {
  const void *x, *dy;
  Span kept;
  void* dx;
};
void contrast_backward(const Work& work, const ContrastGeometry& geometry, Index n, const ContrastBackwardData& data);

/// A penalty of sparse features, and where its kernel finds the step's numbers.
struct SparsityWork {
  SparsitySettings settings{};
  const StepBlock* step = nullptr;
};
/// dx += its gradient of x.
void add_sparsity(const Work& work, const SparsityWork& sparsity, const Shape& shape, const void* x, void* dx);
/// Every row of `count` values gets this length.
void scale_rows(cudaStream_t stream, Span w, Index count, float length);

/// The mean over all positions of n samples, per channel; the blocks of a launch share a sample's positions. `scratch`
/// has global_average_bytes() for at least as many samples.
void global_average(const Work& work, const PoolGeometry& geometry, Index n, const void* x, void* y, void* scratch);
std::size_t global_average_bytes(const Storage& storage, const PoolGeometry& geometry, Index n);

/// One batch norm of stored activations on one stream, with the ReLU and the average pooling that may follow in the
/// same pass. A plain batch norm has slope 1 (no activation) and no pooling.
///
/// Statistics are sums of distances from one value of the channel, so a mean far from zero costs no precision in
/// float32 partial sums. Mean and variance are formed from them in double.
struct NormWork {
  Work work;
  NormReluPool settings;
  void* scratch = nullptr;     ///< norm_scratch_bytes() for at least as many samples
  AllReduce* ranks = nullptr;  ///< null: this rank's own statistics
};

/// The settings of a batch norm alone, over `positions` positions of a sample.
NormReluPool plain_norm(const NormSettings& settings, Index positions);

std::size_t norm_scratch_bytes(const Storage& storage, const NormReluPool& settings, Index n);

/// The statistics of a training step alone.
void norm_statistics(const NormWork& norm, Index n, const void* x, const NormMemory& memory);

/// Reads x twice when training (statistics, result), else once; writes y.
void norm_forward(const NormWork& norm, bool training, Index n, const void* x, const NormMemory& memory, void* y);

/// Call after a training forward. Reads x and dy for the sums, and again unless dx is null. dx overlaps neither.
struct NormBackward {
  const void* x;
  const void* dy;
  float* dgamma;
  float* dbeta;
  void* dx;
};
void norm_backward(const NormWork& norm, Index n, const NormBackward& data, const NormMemory& memory);

/// Group norm of stored activations. The blocks of a launch share a sample's positions: sums per sample and channel
/// come first, then sums of these per group.
struct GroupNormWork {
  Work work;
  GroupNormSettings settings;
  void* scratch = nullptr;  ///< group_norm_bytes() for at least as many samples
  AllReduce* sample_sum =
      nullptr;  ///< sums over the ranks that share the samples; needed with settings.sample_positions
};
std::size_t group_norm_bytes(const Storage& storage, const GroupNormSettings& settings, Index n);

/// Reads x twice, writes y. memory.mean and memory.inverse_deviation get a value per sample and group.
void group_norm_forward(const GroupNormWork& norm, Index n, const void* x, const NormMemory& memory, void* y);
/// Reads x and dy for the sums, and again unless dx is null.
void group_norm_backward(const GroupNormWork& norm, Index n, const NormBackward& data, const NormMemory& memory);

/// y (stored, `rows` positions) += b, float32 and unpadded; pads stay zero.
void add_bias(const Work& work, Index rows, Index channels, const float* b, void* y);

// Bias, max pooling (window = stride) and ReLU behind a convolution that wrote its output without bias.

/// p = relu(max over the window of (y + b)) of n samples, and its winners, one byte per stored element of p. `b` is
/// float32, one per channel, unpadded. y is read once.
struct BiasPoolForward {
  const void* y;
  const float* b;
  void* p;
  std::uint8_t* winner;
};
void bias_pool_forward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolForward& data);

/// All of dy (zeros where no gradient arrives) and db, in one pass over p, dp and the winners alone.
struct BiasPoolBackward {
  const void* p;
  const void* dp;
  const std::uint8_t* winner;
  void* dy;
  float* db;
  void* scratch;  ///< bias_pool_bytes() for at least n samples
};
void bias_pool_backward(const Work& work, const PoolGeometry& geometry, Index n, const BiasPoolBackward& data);
std::size_t bias_pool_bytes(const Storage& storage, const PoolGeometry& geometry, Index n);

// Convolutions of 3x3x3 taps from few channels, and the batch norm of a network's input in front of them, in one pass.

/// Whether narrow_conv_* can: 3x3x3 taps without stride, one stored vector in, 16 stored channels out. Factors are
/// rounded as tensor cores take them, so it is for tf32 and bf16.
bool is_narrow(const Storage& storage, const ConvGeometry& geometry);
int narrow_conv_shared_bytes(const Storage& storage);  ///< shared memory that a block must be able to have

/// The batch norm of x. `scaled`: gamma and beta, too; else the input minus the mean over the deviation, in training.
struct NarrowNorm {
  const NormSettings& settings;
  const NormMemory& memory;
  bool training = true, scaled = true;
};
struct NarrowConv {
  const ConvGeometry& geometry;
  Index rows = 0;
  const NarrowNorm* norm = nullptr;  ///< null: none
};
/// w (float32, unpadded); b null: none.
void narrow_conv_forward(const Work& work, const NarrowConv& conv, const void* x, const float* w, const float* b,
                         void* y);
struct NarrowWeightsData {
  const void *x, *dy;
  float* dw;      ///< float32, unpadded
  void* scratch;  ///< narrow_conv_bytes() for these rows
  const float* w = nullptr;
  float *dgamma = nullptr, *dbeta = nullptr;  ///< with a norm, which is not scaled; dw is that of the scaled one
};
void narrow_conv_weights(const Work& work, const NarrowConv& conv, const NarrowWeightsData& data);
std::size_t narrow_conv_bytes(const Storage& storage, const ConvGeometry& geometry, Index rows);

// Convolutions of 3x3x3 taps without stride from 16 stored channels to 32, in tf32 and bf16. w and dw are float32
// and unpadded.

bool is_cube(const Storage& storage, const ConvGeometry& geometry);
int cube_conv_shared_bytes(const Storage& storage);  ///< shared memory that a block must be able to have
/// b null: none.
void cube_conv_forward(const Work& work, const ConvGeometry& geometry, Index rows, const void* x, const float* w,
                       const float* b, void* y);
void cube_conv_data(const Work& work, const ConvGeometry& geometry, Index rows, const void* dy, const float* w,
                    void* dx);
/// `scratch`: cube_conv_bytes() for these rows.
void cube_conv_weights(const Work& work, const ConvGeometry& geometry, Index rows, const void* x, const void* dy,
                       float* dw, void* scratch);
std::size_t cube_conv_bytes(const Storage& storage, const ConvGeometry& geometry, Index rows);

/// The gradient of a bias: sums[c] = sum over `rows` positions of x (stored), for every channel; `scratch` has
/// channel_sums_bytes() for at least as many rows.
void channel_sums(const Work& work, Index rows, Index channels, const void* x, float* sums, void* scratch);
std::size_t channel_sums_bytes(const Storage& storage, Index rows, Index channels);

/// Known values for trying plans. They depend on the position alone, so the host can compute any element of a result
/// without seeing the tensors. Values are -7/8, -6/8 ... 7/8: exact in every storage type. Sums of products of two such
/// values are exact in float32 up to 2^18.
MRMF_HD inline float pattern_value(std::uint32_t seed, std::uint64_t i) {
  std::uint64_t h = (i + 1) * 0x9E3779B97F4A7C15ULL + seed * 0xD1B54A32D192ED03ULL;
  h = (h ^ (h >> 32)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<float>(static_cast<int>((h >> 40) % 15) - 7) * 0.125F;
}

/// x[i] = pattern_value(seed, i) for `count` elements (a multiple of storage.pad) of the storage type.
void fill_pattern(const Work& work, std::uint32_t seed, Index count, void* x);

/// Time spent in a stream, measured by the device itself. Works inside captured steps, where events give no times.
struct StampBlock {
  unsigned long long begin = 0, total = 0;  ///< nanoseconds; in device memory
};
void stamp_begin(cudaStream_t stream, StampBlock* stamps);
/// total += now - begin
void stamp_end(cudaStream_t stream, StampBlock* stamps);

}  // namespace mrmf::cuda
