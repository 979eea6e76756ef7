// Builders of cuDNN descriptors and graphs for the emulator's tests: one small convolution, three passes.
#pragma once
#include <cudnn.h>

#include <string>
#include <vector>

#include "tests/emulated/test_support.hpp"

namespace dnn_test {

using Numbers = std::vector<std::int64_t>;
using Name = cudnnBackendAttributeName_t;

inline std::string last_error() {
  char text[512];
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}
#define REQUIRE_DNN(call) REQUIRE_MESSAGE((call) == CUDNN_STATUS_SUCCESS, last_error())

/// A descriptor that is destroyed with its scope.
class Made {
 public:
  explicit Made(cudnnBackendDescriptorType_t type) { REQUIRE_DNN(cudnnBackendCreateDescriptor(type, &handle_)); }
  ~Made() { cudnnBackendDestroyDescriptor(handle_); }
  Made(Made&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Made& set(Name name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
    REQUIRE_DNN(cudnnBackendSetAttribute(handle_, name, type, count, values));
    return *this;
  }
  Made& set(Name name, const Numbers& values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  Made& set(Name name, const Made& part) { return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.handle_); }
  template <class Enum>
  Made& choose(Name name, cudnnBackendAttributeType_t type, Enum value) {
    return set(name, type, 1, &value);
  }
  cudnnStatus_t finish() { return cudnnBackendFinalize(handle_); }
  Made&& finished() {
    REQUIRE_DNN(finish());
    return std::move(*this);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

struct TensorSpec {
  std::int64_t uid;
  Numbers dims;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool is_virtual = false;
};

/// Channels-last.
inline Made tensor(const TensorSpec& spec) {
  Numbers strides(spec.dims.size());
  std::int64_t stride = spec.dims[1];
  strides[1] = 1;
  for (std::size_t i = spec.dims.size(); i-- > 2; stride *= spec.dims[i]) strides[i] = stride;
  strides[0] = stride;
  Made made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.choose(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, spec.type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, spec.dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Numbers{spec.uid})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Numbers{16})
      .choose(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, spec.is_virtual);
  return std::move(made.finished());
}

/// 2-D, stride (2, 1), padding (0, 1) before and (1, 1) after, kernel 3 x 2, on 6 x 5.
inline constexpr std::int64_t kRows = 2, kIn = 8, kOut = 16;
inline const Numbers kX{kRows, kIn, 6, 5}, kW{kOut, kIn, 3, 2}, kY{kRows, kOut, 3, 6};

inline Made convolution() {
  Made made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.choose(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .choose(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Numbers{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Numbers{0, 1})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, Numbers{1, 1})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, Numbers{2, 1})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, Numbers{1, 1});
  return std::move(made.finished());
}

inline Made pointwise(cudnnPointwiseMode_t mode, const Made& x, const Made* b, const Made& y, double slope = 0) {
  Made descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  descriptor.choose(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .choose(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .choose(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, slope);
  REQUIRE_DNN(descriptor.finish());
  Made made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, descriptor)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b) made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  return std::move(made.finished());
}

inline Made graph(const std::vector<const Made*>& operations) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Made* each : operations) handles.push_back(each->get());
  Made made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
           handles.data());
  return std::move(made.finished());
}

/// y = leaky ReLU(conv(x, w) + bias), listed back to front: the order of the list is free.
inline Made forward_graph(cudnnDataType_t type) {
  const Made x = tensor({1, kX, type}), w = tensor({2, kW, type}), bias = tensor({3, {1, kOut, 1, 1}});
  const Made y = tensor({4, kY, type}), t1 = tensor({5, kY, CUDNN_DATA_FLOAT, true}),
             t2 = tensor({6, kY, CUDNN_DATA_FLOAT, true});
  Made conv(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  conv.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, t1)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution());
  REQUIRE_DNN(conv.finish());
  const Made add = pointwise(CUDNN_POINTWISE_ADD, t1, &bias, t2);
  const Made relu = pointwise(CUDNN_POINTWISE_RELU_FWD, t2, nullptr, y, 0.25);
  return graph({&relu, &add, &conv});
}

inline Made data_graph() {
  const Made dy = tensor({1, kY}), w = tensor({2, kW}), dx = tensor({4, kX});
  Made conv(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  conv.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution());
  REQUIRE_DNN(conv.finish());
  return graph({&conv});
}

inline Made filter_graph(cudnnDataType_t type, bool through_virtual) {
  const Made x = tensor({1, kX, type}), dy = tensor({2, kY, type}), dw = tensor({4, kW}),
             t = tensor({5, kW, CUDNN_DATA_FLOAT, true});
  Made conv(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  conv.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, through_virtual ? t : dw)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, convolution());
  REQUIRE_DNN(conv.finish());
  if (!through_virtual) return graph({&conv});
  const Made identity = pointwise(CUDNN_POINTWISE_IDENTITY, t, nullptr, dw);
  return graph({&conv, &identity});
}

inline std::vector<Made> proposals(const Made& g, cudnnBackendHeurMode_t mode) {
  Made heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g)
      .choose(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  REQUIRE_DNN(heuristics.finish());
  std::int64_t count = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       0, &count, nullptr));
  std::vector<Made> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(configs.back().get());
  }
  REQUIRE_DNN(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       count, &count, handles.data()));
  return configs;
}

inline std::int64_t number(const Made& from, Name name) {
  std::int64_t value = -1, count = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(from.get(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

inline std::vector<cudnnBackendNumericalNote_t> notes(const Made& config) {
  const Made engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                       &count, &handle));
  std::vector<cudnnBackendNumericalNote_t> list(8);
  REQUIRE_DNN(cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 8,
                                       &count, list.data()));
  list.resize(static_cast<std::size_t>(count));
  return list;
}

inline Made plan_of(const Made& config) {
  Made plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  return plan;
}

/// The plan of the engine without notes: exact.
inline Made exact_plan(const Made& g) {
  for (const Made& config : proposals(g, CUDNN_HEUR_MODE_B))
    if (notes(config).empty()) return std::move(plan_of(config).finished());
  FAIL("no exact engine");
  return Made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
}

inline cudnnStatus_t run(const Made& plan, const Numbers& ids, const std::vector<void*>& pointers) {
  cudnnHandle_t handle = nullptr;
  TestStream stream;
  REQUIRE_DNN(cudnnCreate(&handle));
  REQUIRE_DNN(cudnnSetStream(handle, stream));
  DeviceFloats workspace(static_cast<std::size_t>(number(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)) / 4 + 1);
  void* scratch = workspace.get();
  Made pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(pointers.size()),
           pointers.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  REQUIRE_DNN(pack.finish());
  const cudnnStatus_t status = cudnnBackendExecute(handle, plan.get(), pack.get());
  stream.synchronize();
  cudnnDestroy(handle);
  return status;
}

}  // namespace dnn_test
