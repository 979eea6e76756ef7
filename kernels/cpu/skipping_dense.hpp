// Dense layers that skip zeros in the gradient of their output.
#pragma once

#include <memory>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/operations.hpp"

namespace mrmf::cpu {

/// A dense layer from `in` to `out` features as `all`, whose gradients leave out the products with those numbers of dy
/// that are zero: behind a ReLU that is about half of them. Where more than 0.55 of dy are not zero, all's gradients
/// are taken. Sums are float32; their order depends on where the zeros are, not on threads. `set`: the instruction set
/// that the products are compiled for, which the processor must have.
std::unique_ptr<WeightedOp> make_skipping_dense(InstructionSet set, std::unique_ptr<WeightedOp> all, Index in,
                                                Index out, SharedWorkspace memory);

}  // namespace mrmf::cpu
