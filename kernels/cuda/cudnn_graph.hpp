// Operation graphs of cuDNN: channels-last tensors, convolutions and pointwise operations. Building one needs no GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/cudnn_descriptor.hpp"
#include "kernels/cuda/device_model.hpp"

namespace mrmf::cuda {

/// A dense tensor whose channels lie innermost.
struct TensorSpec {
  std::int64_t id;                 ///< names the tensor in the graph and when pointers are given to the plan
  std::vector<std::int64_t> dims;  ///< (n, channels, spatial...); of filters (out, in, spatial...)
  cudnnDataType_t type;
  bool is_virtual = false;  ///< exists inside the graph alone and has no memory
};
Descriptor make_tensor(const TensorSpec& spec);

/// Sizes per spatial axis, slowest first.
struct ConvolutionSpec {
  std::vector<std::int64_t> pad_before;
  std::vector<std::int64_t> pad_after;
  std::vector<std::int64_t> stride;
};
/// A cross-correlation that accumulates in fp32.
Descriptor make_convolution(const ConvolutionSpec& spec);

/// The tensors of a convolution, made by make_tensor; one of them, as the pass says, is the result.
struct ConvTensors {
  const Descriptor& x;  ///< or dx
  const Descriptor& w;  ///< or dw
  const Descriptor& y;  ///< or dy
};
Descriptor convolution_operation(ConvPass pass, const Descriptor& convolution, const ConvTensors& tensors);
Descriptor add_operation(const Descriptor& x, const Descriptor& bias, const Descriptor& y);  ///< bias is broadcast

Descriptor make_graph(const std::vector<Descriptor>& operations, const DeviceModel& device);

}  // namespace mrmf::cuda
