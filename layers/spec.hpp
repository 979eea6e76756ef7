// A layer as data: an entry of a preset, or of [[model.layers]] in a configuration. It has no shapes: these follow from
// the input and the resolution when the model is built.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "kernels/operations.hpp"
#include "kernels/random.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// What a value of a layer's output follows from.
enum class LayerField {
  value,     ///< the input's at the same position and channel alone; and in backward the gradient's there
  position,  ///< what the inputs have at the same position; in training a batch norm's statistics, too
  window,    ///< a window of positions
  all,       ///< all positions; or where in the sample it is, as with weights of a position's own
};

/// What a layer computes, as the planner and the benchmarks count it.
enum class LayerWork {
  plain,    ///< passes over its values
  weights,  ///< products with its weights
  norm,     ///< statistics of its input, then its values by them. Ranks that share samples add up the statistics
};

/// Every kind of layer: its name, which is its word in a configuration; what makes it, as make_conv() in
/// layers/conv.cpp; its LayerField; its LayerWork.
#define MRMF_LAYER_KINDS(KIND)                                  \
  KIND(conv, conv, window, weights)                             \
  KIND(conv_transpose, conv_transpose, window, weights)         \
  KIND(locally_connected, locally_connected, all, weights)      \
  KIND(rica, rica, all, weights)                                \
  KIND(max_pool, pool, window, plain)                           \
  KIND(average_pool, pool, window, plain)                       \
  KIND(l2_pool, l2_pool, window, plain)                         \
  KIND(local_contrast_norm, local_contrast_norm, window, plain) \
  KIND(global_average_pool, global_average_pool, all, plain)    \
  KIND(upsample, upsample, window, plain)                       \
  KIND(batch_norm, batch_norm, position, norm)                  \
  KIND(group_norm, group_norm, all, norm)                       \
  KIND(layer_norm, group_norm, all, norm)                       \
  KIND(flatten, flatten, all, plain)                            \
  KIND(dense, dense, all, weights)                              \
  KIND(relu, activation, value, plain)                          \
  KIND(leaky_relu, activation, value, plain)                    \
  KIND(tanh, activation, value, plain)                          \
  KIND(gelu, activation, value, plain)                          \
  KIND(silu, activation, value, plain)                          \
  KIND(softplus, activation, value, plain)                      \
  KIND(sigmoid, activation, value, plain)                       \
  KIND(dropout, dropout, value, plain)                          \
  KIND(add, join, position, plain)                              \
  KIND(concat, join, position, plain)                           \
  KIND(labels, labels, position, plain)                         \
  KIND(noise, noise, position, plain)                           \
  KIND(slice, slice, position, plain)                           \
  KIND(stop_gradient, stop_gradient, position, plain)

#define MRMF_ENUMERATOR(kind, maker, field, work) kind,
enum class LayerKind { MRMF_LAYER_KINDS(MRMF_ENUMERATOR) };
#undef MRMF_ENUMERATOR

struct LayerKindFacts {
  LayerKind kind;
  const char* word;
  LayerField field;
  LayerWork work;
};
#define MRMF_FACTS(kind, maker, field, work) {LayerKind::kind, #kind, LayerField::field, LayerWork::work},
inline constexpr LayerKindFacts kLayerKinds[] = {MRMF_LAYER_KINDS(MRMF_FACTS)};  ///< in the order of LayerKind
#undef MRMF_FACTS
constexpr const LayerKindFacts& facts_of(LayerKind kind) { return kLayerKinds[static_cast<std::size_t>(kind)]; }
inline std::string to_string(LayerKind kind) { return facts_of(kind).word; }
constexpr bool is_elementwise(LayerKind kind) { return facts_of(kind).field == LayerField::value; }
constexpr bool is_weighted(LayerKind kind) { return facts_of(kind).work == LayerWork::weights; }
constexpr bool is_norm(LayerKind kind) { return facts_of(kind).work == LayerWork::norm; }

/// Initial values of weights and biases. pytorch: U(+-1/sqrt(fan_in)) for both; glorot, he: uniform weights, zero
/// biases.
enum class Initialiser { pytorch, glorot, he };

/// What rica puts its input together with: its weights, or some of their own.
enum class Decoder { tied, own };
/// What comes out of rica: its input put together again of the features, or the features.
enum class RicaOutput { reconstruction, features };

/// Sizes given as one number for every axis of the data. The number is at the last axis until resolve_axes() copies it
/// to the others.
struct OneForAll {
  bool window = false, stride = false, padding = false, dilation = false;
  bool operator==(const OneForAll&) const = default;
};

/// One entry of the list. Fields that a kind does not use keep their defaults. Extents are right-aligned to the
/// spatial axes of the data: a 1-D kernel of 4 is {1, 1, 4}.
struct LayerSpec {
  LayerKind kind = LayerKind::relu;
  std::string name;        ///< unique in the model; made from kind and position when empty ("conv1")
  Index units = 0;         ///< conv, conv_transpose, locally_connected, rica, slice: output channels; others: outputs
  Index first = 0;         ///< slice: the first of the channels that it takes
  Extent window{1, 1, 1};  ///< kernel, window of a pool or of local_contrast_norm, or factor of upsample
  Extent stride{0, 0, 0};  ///< 0: not given, which means 1 for conv and the window for pools
  Extent pad_before{0, 0, 0};  ///< conv: zeros before and after the input per axis, fewer than the kernel reaches
  Extent pad_after{0, 0, 0};   ///< both pads of a conv_transpose: positions that are left out of the output
  Extent dilation{1, 1, 1};    ///< dilation of a kernel's taps
  OneForAll one_for_all{};
  /// conv: out = ceil(in / stride), an odd zero goes after (TensorFlow's "same"); no pads. conv_transpose: in * stride
  bool same_padding = false;
  Index groups = 0;  ///< group norm; l2_pool and rica: 0, every channel is one
  UpsampleKind mode = UpsampleKind::nearest;
  float rate = 0.0F;           ///< dropout
  float slope = 0.01F;         ///< leaky ReLU, for negative values
  float scale = 1.0F;          ///< tanh: y = scale * tanh(x)
  float momentum = 0.1F;       ///< batch norm, PyTorch's meaning: weight of the new batch
  float epsilon = 1e-5F;       ///< epsilon of norms
  float root_epsilon = 0.01F;  ///< l2_pool, rica: added to squares below their root
  float floor = 0.01F;         ///< local_contrast_norm: what deviations below it count as
  float sparsity = 0.1F;       ///< rica: weight of the penalty
  Decoder decoder = Decoder::tied;
  RicaOutput output = RicaOutput::reconstruction;
  float row_length = 1.0F;  ///< rica: of every feature's weights; 0: any
  Initialiser initialiser = Initialiser::pytorch;
  /// conv: the batch norm behind it takes care of its bias. Set while a network is made (leave_biases_to_norms).
  bool bias_in_norm = false;
  /// Names of the layers it reads, or kInput; empty: the layer before.
  std::vector<std::string> from{};
  std::string weights_of{};  ///< another layer, whose parameters this one has, too (WeightCopy)
  int every = 0;  ///< with weights_of: a frozen copy, taken anew after so many updates; 0: the same weights, always
  bool operator==(const LayerSpec&) const = default;
};

/// The network's input in LayerSpec::from. No layer may have this name.
inline constexpr const char* kInput = "input";

/// Pools with a window; a global pool has none.
constexpr bool is_pool(LayerKind kind) {
  return kind == LayerKind::max_pool || kind == LayerKind::average_pool || kind == LayerKind::l2_pool;
}

/// Whether each output position has a field of the input and weights of its own. Not so for a rica that puts its input
/// together again: its weights belong to the positions of its features.
inline bool output_has_fields(const LayerSpec& spec) {
  return spec.kind == LayerKind::locally_connected ||
         (spec.kind == LayerKind::rica && spec.output == RicaOutput::features);
}

/// Layers of several inputs.
constexpr bool is_join(LayerKind kind) { return kind == LayerKind::add || kind == LayerKind::concat; }

/// Layers that read nothing of the network: what they give comes from the batch.
constexpr bool is_source(LayerKind kind) { return kind == LayerKind::labels || kind == LayerKind::noise; }

/// Copies sizes given once to every axis of the data. Leaves nothing to resolve.
void resolve_axes(std::vector<LayerSpec>& layers, int axes);

/// Connections of one unit: the inputs it reads and the outputs it feeds; for a convolution, times the kernel's
/// positions.
struct Fan {
  Index in, out;
};

/// Uniform in +-bound, drawn in memory order, weights first:
///   pytorch  1/sqrt(fan.in) for weights and biases (torch.nn.Linear and Conv defaults)
///   glorot   sqrt(6/(fan.in + fan.out)), zero biases (Glorot & Bengio 2010, eq. 16; the Keras default)
///   he       sqrt(6/fan.in), zero biases (He et al. 2015)
void initialise_weights(Initialiser initialiser, const Fan& fan, Rng& rng, Span weights, Span biases);

/// Which layers are the bottom, whose parameters a fusion transfers: those before a cut, or a set of layers.
struct BottomSettings {
  std::string cut{};                  ///< name of the first layer of the top; empty: see find_cut()
  std::vector<std::string> layers{};  ///< names instead of a cut; "down*" stands for all that begin with down
  bool operator==(const BottomSettings&) const = default;
};

}  // namespace mrmf
