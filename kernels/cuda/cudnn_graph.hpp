// Operation graphs of cuDNN: channels-last tensors, convolutions and pointwise operations. Building one needs no GPU.
#pragma once

#include <cstdint>
#include <vector>

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

/// Operations on tensors that make_tensor made; the last one named is the result.
Descriptor forward_operation(const Descriptor& convolution, const Descriptor& x, const Descriptor& w,
                             const Descriptor& y);
Descriptor backward_data_operation(const Descriptor& convolution, const Descriptor& dy, const Descriptor& w,
                                   const Descriptor& dx);
Descriptor backward_weights_operation(const Descriptor& convolution, const Descriptor& x, const Descriptor& dy,
                                      const Descriptor& dw);
Descriptor add_operation(const Descriptor& x, const Descriptor& bias, const Descriptor& y);  ///< bias is broadcast
Descriptor identity_operation(const Descriptor& x, const Descriptor& y);                     ///< converts types

Descriptor make_graph(const std::vector<Descriptor>& operations, const DeviceModel& device);

}  // namespace mrmf::cuda
