// The operations that a network is made of, each built by a Backend for one geometry and a largest number of rows.
// The conventions of kernels/backend.hpp hold here.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/step.hpp"

namespace mrmf {

/// A convolution, y = conv(x, w) + b, or a dense layer, y(n, out) = x(n, in) w(out, in)^T + b. backward_data comes
/// after forward with the same w.
class WeightedOp {
 public:
  virtual ~WeightedOp() = default;
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

}  // namespace mrmf
