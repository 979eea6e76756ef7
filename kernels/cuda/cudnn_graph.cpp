#include "kernels/cuda/cudnn_graph.hpp"

namespace mrmf::cuda {
namespace {

/// Every tensor starts at a multiple of this many bytes; the vector loads of cuDNN's kernels need no more.
constexpr std::int64_t tensor_alignment = 16;

std::vector<std::int64_t> channels_last_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t stride = dims[1];
  strides[1] = 1;
  for (std::size_t axis = dims.size() - 1; axis >= 2; --axis) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  strides[0] = stride;
  return strides;
}

Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  const cudnnDataType_t math = CUDNN_DATA_FLOAT;
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
  kind.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation.finalize();
  return operation;
}

/// The result is overwritten: alpha 1, beta 0.
void finish_convolution(Descriptor& operation, cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta) {
  const float one = 1.0F;
  const float zero = 0.0F;
  operation.set(alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.set(beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
}

}  // namespace

Descriptor make_tensor(const TensorSpec& spec) {
  Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &spec.type);
  tensor.set_ints(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.dims);
  tensor.set_ints(CUDNN_ATTR_TENSOR_STRIDES, channels_last_strides(spec.dims));
  tensor.set_int(CUDNN_ATTR_TENSOR_UNIQUE_ID, spec.id);
  tensor.set_int(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, tensor_alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &spec.is_virtual);
  tensor.finalize();
  return tensor;
}

Descriptor make_convolution(const ConvolutionSpec& spec) {
  const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  convolution.set_int(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(spec.stride.size()));
  convolution.set_ints(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spec.pad_before);
  convolution.set_ints(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spec.pad_after);
  convolution.set_ints(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spec.stride);
  convolution.set_ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::vector<std::int64_t>(spec.stride.size(), 1));
  convolution.finalize();
  return convolution;
}

Descriptor forward_operation(const Descriptor& convolution, const Descriptor& x, const Descriptor& w,
                             const Descriptor& y) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  finish_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
  return operation;
}

Descriptor backward_data_operation(const Descriptor& convolution, const Descriptor& dy, const Descriptor& w,
                                   const Descriptor& dx) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
  finish_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
  return operation;
}

Descriptor backward_weights_operation(const Descriptor& convolution, const Descriptor& x, const Descriptor& dy,
                                      const Descriptor& dw) {
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
  finish_convolution(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
  return operation;
}

Descriptor add_operation(const Descriptor& x, const Descriptor& bias, const Descriptor& y) {
  return pointwise(CUDNN_POINTWISE_ADD, x, &bias, y);
}

Descriptor identity_operation(const Descriptor& x, const Descriptor& y) {
  return pointwise(CUDNN_POINTWISE_IDENTITY, x, nullptr, y);
}

Descriptor make_graph(const std::vector<Descriptor>& operations, const DeviceModel& device) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (device.handle() != nullptr) graph.set_handle(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device.handle());
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  graph.finalize();
  return graph;
}

}  // namespace mrmf::cuda
