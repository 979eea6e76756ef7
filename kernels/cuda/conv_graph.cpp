// A convolution's cuDNN operation graph on channels-last tensors, and the binding of memory to its tensors. Building
// one needs no GPU.
#include <cstdint>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/cudnn.hpp"

namespace mrmf::cuda {
namespace {

/// A dense tensor whose channels lie innermost.
struct TensorSpec {
  std::int64_t id;                 ///< names the tensor in the graph and when pointers are given to the plan
  std::vector<std::int64_t> dims;  ///< (n, channels, spatial...); of filters (out, in, spatial...)
  cudnnDataType_t type;
  bool is_virtual = false;  ///< exists only inside the graph and has no memory
};

/// Sizes per spatial axis, slowest first.
struct ConvolutionSpec {
  std::vector<std::int64_t> pad_before;
  std::vector<std::int64_t> pad_after;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> dilation;
};

/// The tensors of a convolution, made by make_tensor. The pass decides which of them is the result.
struct ConvTensors {
  const Descriptor& x;  ///< or dx
  const Descriptor& w;  ///< or dw
  const Descriptor& y;  ///< or dy
};

/// Every tensor starts at a multiple of this many bytes, which is all that cuDNN's vector loads need.
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

/// cuDNN's names for the parts of a convolution operation in one pass.
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

/// A cross-correlation that accumulates in fp32.
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
  convolution.set_ints(CUDNN_ATTR_CONVOLUTION_DILATIONS, spec.dilation);
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

/// y = x + bias, which is broadcast.
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

using Dims = std::vector<std::int64_t>;

enum TensorId : std::int64_t { id_x = 1, id_w, id_bias, id_dy, id_result, id_unrounded };

/// Number of unused leading spatial axes, at most 1: cuDNN's engines for fused graphs need at least two axes, so 1-D
/// problems are 2-D to it.
std::size_t unused_axes(const ConvGeometry& g) {
  const bool flat = g.in[0] == 1 && g.kernel[0] == 1 && g.stride[0] == 1 && g.pad_before[0] == 0 && g.pad_after[0] == 0;
  return flat ? 1 : 0;
}

Dims spatial(const Extent& extent, std::size_t unused) { return {extent.begin() + unused, extent.end()}; }

Dims with_leading(std::int64_t n, std::int64_t channels, Dims dims) {
  dims.insert(dims.begin(), {n, channels});
  return dims;
}

struct ConvShapes {
  Dims x, w, y, bias;
};

ConvShapes shapes_of(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const std::size_t unused = unused_axes(g);
  const std::size_t axes = 3 - unused;
  return {with_leading(problem.rows, g.in_channels, spatial(g.in, unused)),
          with_leading(g.out_channels, g.in_channels, spatial(g.kernel, unused)),
          with_leading(problem.rows, g.out_channels, spatial(g.out(), unused)),
          with_leading(1, g.out_channels, Dims(axes, 1))};
}

/// The operations of a pass. dw is in the storage type: with bf16 inputs cuDNN refuses an fp32 dw. Via a virtual dw it
/// offers a single engine, which does not split the long sums over rows and positions.
std::vector<Descriptor> operations_of(const ConvProblem& problem, const Descriptor& convolution) {
  const ConvShapes shapes = shapes_of(problem);
  const cudnnDataType_t storage = problem.precision == Precision::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const auto tensor = [&](ConvPass made_by, TensorId id, const Dims& dims) {
    return make_tensor({problem.pass == made_by ? id_result : id, dims, storage});
  };
  const Descriptor x = tensor(ConvPass::backward_data, id_x, shapes.x);
  const Descriptor w = tensor(ConvPass::backward_weights, id_w, shapes.w);
  const Descriptor y = tensor(ConvPass::forward, id_dy, shapes.y);
  std::vector<Descriptor> operations;
  if (!problem.bias) {
    operations.push_back(convolution_operation(problem.pass, convolution, {x, w, y}));
    return operations;
  }
  const Descriptor bias = make_tensor({id_bias, shapes.bias, CUDNN_DATA_FLOAT});
  const Descriptor unrounded = make_tensor({id_unrounded, shapes.y, CUDNN_DATA_FLOAT, true});
  operations.push_back(convolution_operation(problem.pass, convolution, {x, w, unrounded}));
  operations.push_back(add_operation(unrounded, bias, y));
  return operations;
}

}  // namespace

Descriptor make_conv_graph(const ConvProblem& problem, const DeviceModel& device) {
  const ConvGeometry& g = problem.geometry;
  const std::size_t unused = unused_axes(g);
  const Descriptor convolution = make_convolution({spatial(g.pad_before, unused), spatial(g.pad_after, unused),
                                                   spatial(g.stride, unused), spatial(g.dilation, unused)});
  return make_graph(operations_of(problem, convolution), device);
}

ExecutionPlan::Binding bind_conv(ConvPass pass, bool bias, const ConvPointers& pointers) {
  ExecutionPlan::Binding binding;
  const auto bind = [&](TensorId id, const void* pointer) {
    binding.ids.push_back(id);
    binding.pointers.push_back(const_cast<void*>(pointer));  // cuDNN takes inputs and outputs in one list
  };
  if (pass != ConvPass::backward_data) bind(id_x, pointers.x);
  if (pass != ConvPass::backward_weights) bind(id_w, pointers.w);
  if (pass != ConvPass::forward) bind(id_dy, pointers.dy);
  if (pass == ConvPass::forward && bias) bind(id_bias, pointers.bias);
  bind(id_result, pointers.result);
  return binding;
}

}  // namespace mrmf::cuda
