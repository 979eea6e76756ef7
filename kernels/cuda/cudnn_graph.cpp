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

/// What cuDNN calls the parts of a convolution's operation in one of its passes.
struct PassNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};

PassNames names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::backward_weights: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
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

Descriptor convolution_operation(ConvPass pass, const Descriptor& convolution, const ConvTensors& tensors) {
  const PassNames names = names_of(pass);
  const float one = 1.0F, zero = 0.0F;  // the result is overwritten
  Descriptor operation(names.type);
  operation.set_descriptor(names.convolution, convolution);
  operation.set_descriptor(names.x, tensors.x);
  operation.set_descriptor(names.w, tensors.w);
  operation.set_descriptor(names.y, tensors.y);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one);
  operation.set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero);
  operation.finalize();
  return operation;
}

Descriptor add_operation(const Descriptor& x, const Descriptor& bias, const Descriptor& y) {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  const cudnnDataType_t math = CUDNN_DATA_FLOAT;
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
  kind.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
  operation.set_descriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation.finalize();
  return operation;
}

Descriptor make_graph(const std::vector<Descriptor>& operations, const DeviceModel& device) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (device.handle() != nullptr) graph.set_handle(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, device.handle());
  graph.set_descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations);
  graph.finalize();
  return graph;
}

}  // namespace mrmf::cuda
