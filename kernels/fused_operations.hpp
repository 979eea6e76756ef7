// Operations that do the work of several layers in one pass. A backend offers them; where it does not, the layers run
// one by one (kernels/operations.hpp), with the same results.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/geometry.hpp"
#include "kernels/operations.hpp"

namespace mrmf {

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

}  // namespace mrmf
