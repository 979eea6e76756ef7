// What oneDNN does for the CPU backend: layers with weights by its primitives and its product of matrices, the
// instruction set that it is held to, and the times that it reaches. dnnl.hpp is seen only in this folder.
#pragma once

#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/instruction_set.hpp"

namespace mrmf::onednn {

/// "2.6.3"
std::string version();

/// Holds oneDNN to instructions of this set. requires: it is not in use yet.
void hold_to(cpu::InstructionSet set);
/// The newest of our sets within the instructions that oneDNN uses.
cpu::InstructionSet instruction_set();

/// Engine, stream and the memory that primitives share, as they run one after the other (primitives.hpp).
class Context;
/// For primitives of at most so many threads.
std::shared_ptr<const Context> make_context(int threads);

/// What is multiplied: float32, or bf16 to which activations, weights and gradients are rounded for the call. Sums and
/// results are float32. bf16 is for processors where has_bf16_products().
enum class Factors { float32, bf16 };
bool has_bf16_products();
/// Whether oneDNN uses AMX's products in bf16.
bool has_amx();

/// A dense layer's weights: brought into oneDNN's own layout in each call, or read as they are.
enum class DenseWeights { packed, plain };

/// On channels-last activations. The context lives longer than the operation.
std::unique_ptr<WeightedOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows,
                                      Factors factors = Factors::float32);
std::unique_ptr<WeightedOp> make_dense(const Context& context, Index in, Index out, Index max_rows,
                                       DenseWeights weights, Factors factors = Factors::float32);

/// The convolution with another weight gradient, for few positions in a sample: a matrix product for every tap of the
/// kernel, over all rows at once. requires: calls with at most so many rows.
std::unique_ptr<WeightedOp> with_tap_gradients(std::unique_ptr<WeightedOp> conv, const ConvGeometry& geometry,
                                               Index max_rows, cpu::SharedWorkspace memory);

/// A convolution of many weights and few positions, all passes tap by tap. Null for others. requires: as above.
std::unique_ptr<WeightedOp> make_tap_conv(const ConvGeometry& geometry, Index max_rows,
                                          const cpu::SharedWorkspace& memory);

/// The convolution `geometry` with its roles exchanged, as Backend::conv_transpose. Null unless its windows neither
/// overlap nor leave gaps.
std::unique_ptr<WeightedOp> make_patch_conv_transpose(const ConvGeometry& geometry, cpu::SharedWorkspace memory);

/// Seconds of one call: the least over the repeats and over channels-last (dense layers: plain, too) and oneDNN's own
/// choice of layouts. Reorders between layouts are not counted.
struct BestTimes {
  double forward = 0, backward_data = 0, backward_weights = 0;
  double sum() const { return forward + backward_data + backward_weights; }
};

BestTimes best_conv_times(const ConvGeometry& geometry, Index rows, int repeats);
BestTimes best_dense_times(Index in, Index out, Index rows, int repeats);

}  // namespace mrmf::onednn
