// Tensors and operations: from attributes to what they mean.
#include <algorithm>

#include "tests/emulated/cudnn_descriptor.hpp"

namespace mrmf::emulated::dnn {
namespace {

void require_float(const Descriptor& d, cudnnBackendAttributeName_t name) {
  require(d.choice<cudnnDataType_t>(name, CUDNN_TYPE_DATA_TYPE) == CUDNN_DATA_FLOAT,
          CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "computation in another type than float");
}

const Tensor& tensor_of(const Descriptor& d, cudnnBackendAttributeName_t name) {
  return d.part(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR).tensor;
}

struct Names {
  cudnnBackendAttributeName_t x, b, y, convolution, alpha, beta;
};

Names names(Kind kind) {
  if (kind == Kind::forward)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  if (kind == Kind::backward_data)
    return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  return {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

Kind convolution_kind(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) return Kind::forward;
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) return Kind::backward_data;
  return Kind::backward_filter;
}

void check_shapes(const Tensor& x, const Tensor& w, const Tensor& y, const Convolution& c) {
  const std::size_t axes = c.stride.size();
  for (const Tensor* each : {&x, &w, &y})
    require(each->dims.size() == axes + 2, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            "a tensor's axes do not fit the convolution's " + std::to_string(axes) + " spatial ones");
  require(x.dims[0] == y.dims[0] && x.dims[1] == w.dims[1] && y.dims[1] == w.dims[0],
          CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "rows or channels of a convolution's tensors differ");
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t reach = c.dilation[i] * (w.dims[2 + i] - 1) + 1;
    const std::int64_t size = (x.dims[2 + i] + c.pre[i] + c.post[i] - reach) / c.stride[i] + 1;
    require(size == y.dims[2 + i], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            "output axis " + std::to_string(i) + " of the convolution should be " + std::to_string(size));
  }
}

void check_types(const Tensor& a, const Tensor& b, const Tensor& result, Kind kind) {
  require(a.bf16 == b.bf16, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a convolution of two data types");
  // A float filter gradient is a matter of engines: heuristics find none.
  require(result.is_virtual || result.bf16 == a.bf16 || kind == Kind::backward_filter,
          CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a convolution's result of another data type than its inputs");
}

}  // namespace

void finalize_tensor(Descriptor& d) {
  Tensor& t = d.tensor;
  const auto type = d.choice<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE);
  require(type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16, CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
          "only float and bfloat16 tensors are emulated");
  t.bf16 = type == CUDNN_DATA_BFLOAT16;
  t.dims = d.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  t.strides = d.integers(CUDNN_ATTR_TENSOR_STRIDES);
  t.uid = d.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  t.alignment = d.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  t.is_virtual = d.flag(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  require(!d.flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE), CUDNN_STATUS_NOT_SUPPORTED, "tensors by value are not emulated");
  require(t.dims.size() == t.strides.size() && t.dims.size() >= 3, CUDNN_STATUS_BAD_PARAM,
          "a tensor needs as many strides as dimensions, and at least 3");
  for (std::size_t i = 0; i < t.dims.size(); ++i)
    require(t.dims[i] > 0 && t.strides[i] > 0, CUDNN_STATUS_BAD_PARAM,
            "a tensor's dimension or stride is not positive");
  require(t.alignment >= 1 && (t.alignment & (t.alignment - 1)) == 0, CUDNN_STATUS_BAD_PARAM,
          "a tensor's alignment is no power of two");
}

void finalize_convolution(Descriptor& d) {
  require_float(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
  require(d.choice<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE) ==
              CUDNN_CROSS_CORRELATION,
          CUDNN_STATUS_NOT_SUPPORTED, "only CUDNN_CROSS_CORRELATION is emulated");
  const auto axes = static_cast<std::size_t>(d.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  require(axes >= 1 && axes <= 3, CUDNN_STATUS_NOT_SUPPORTED, "a convolution has 1, 2 or 3 spatial axes");
  d.convolution = {d.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), d.integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
                   d.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), d.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS)};
  const Convolution& c = d.convolution;
  for (const auto* each : {&c.pre, &c.post, &c.stride, &c.dilation})
    require(each->size() == axes, CUDNN_STATUS_BAD_PARAM, "a convolution's numbers do not fit its spatial axes");
  for (std::size_t i = 0; i < axes; ++i)
    require(c.pre[i] >= 0 && c.post[i] >= 0 && c.stride[i] > 0 && c.dilation[i] > 0, CUDNN_STATUS_BAD_PARAM,
            "a convolution's padding, stride or dilation is negative or zero");
}

void finalize_pointwise(Descriptor& d) {
  require_float(d, CUDNN_ATTR_POINTWISE_MATH_PREC);
  switch (d.choice<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE)) {
    case CUDNN_POINTWISE_ADD: d.operation.kind = Kind::add; break;
    case CUDNN_POINTWISE_IDENTITY: d.operation.kind = Kind::identity; break;
    case CUDNN_POINTWISE_RELU_FWD: d.operation.kind = Kind::relu; break;
    default: throw Refusal(CUDNN_STATUS_NOT_SUPPORTED, "this pointwise mode is not emulated");
  }
  require(!d.has(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP) && !d.has(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP),
          CUDNN_STATUS_NOT_SUPPORTED, "clips of a pointwise operation are not emulated");
  d.operation.slope = d.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
}

void finalize_convolution_operation(Descriptor& d) {
  d.operation.kind = convolution_kind(d.type());
  const Names n = names(d.operation.kind);
  require(d.real(n.alpha, 1.0) == 1.0 && d.real(n.beta, 0.0) == 0.0, CUDNN_STATUS_NOT_SUPPORTED,
          "only alpha 1 and beta 0 are emulated");
  d.operation.convolution = d.part(n.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR).convolution;
  d.tensors = {tensor_of(d, n.x), tensor_of(d, n.b), tensor_of(d, n.y)};
  const Tensor &x = d.tensors[0], &b = d.tensors[1], &y = d.tensors[2];
  d.operation.x = x.uid;
  d.operation.b = b.uid;
  d.operation.y = y.uid;
  const Convolution& c = d.operation.convolution;
  if (d.operation.kind == Kind::forward) check_shapes(x, b, y, c);
  if (d.operation.kind == Kind::backward_data) check_shapes(y, b, x, c);
  if (d.operation.kind == Kind::backward_filter) check_shapes(x, y, b, c);
  check_types(x, b, y, d.operation.kind);
}

void finalize_pointwise_operation(Descriptor& d) {
  const Operation& mode =
      d.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR).operation;
  d.operation = mode;
  d.tensors = {tensor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), tensor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)};
  d.operation.x = d.tensors[0].uid;
  d.operation.y = d.tensors[1].uid;
  require(d.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0) == 1.0 &&
              d.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0) == 1.0,
          CUDNN_STATUS_NOT_SUPPORTED, "only alpha 1 is emulated");
  require(d.tensors[0].dims == d.tensors[1].dims, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
          "input and output of a pointwise operation differ in shape");
  const bool binary = mode.kind == Kind::add;
  require(binary == d.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC), CUDNN_STATUS_BAD_PARAM,
          binary ? "a pointwise addition without a second input" : "a second input of a unary pointwise operation");
  if (!binary) return;
  const Tensor& b = tensor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
  require(b.dims.size() == d.tensors[0].dims.size(), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
          "a pointwise operation's second input has another number of axes");
  for (std::size_t i = 0; i < b.dims.size(); ++i)
    require(b.dims[i] == 1 || b.dims[i] == d.tensors[0].dims[i], CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            "a pointwise operation's second input does not spread to the first");
  d.operation.b = b.uid;
  d.tensors.push_back(b);
}

}  // namespace mrmf::emulated::dnn
