// cuDNN's backend interface: convolutions against plain loops, and the selection of plans.
#include <cudnn.h>

#include <cmath>
#include <memory>

#include "tests/emulated/numbers.hpp"
#include "tests/emulated/test_support.hpp"

namespace {

using Numbers = std::vector<std::int64_t>;
using Name = cudnnBackendAttributeName_t;

std::string last_error() {
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
Made tensor(const TensorSpec& spec) {
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
constexpr std::int64_t kRows = 2, kIn = 8, kOut = 16;
const Numbers kX{kRows, kIn, 6, 5}, kW{kOut, kIn, 3, 2}, kY{kRows, kOut, 3, 6};

Made convolution() {
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

Made pointwise(cudnnPointwiseMode_t mode, const Made& x, const Made* b, const Made& y, double slope = 0) {
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

Made graph(const std::vector<const Made*>& operations) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Made* each : operations) handles.push_back(each->get());
  Made made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
           handles.data());
  return std::move(made.finished());
}

/// y = leaky ReLU(conv(x, w) + bias), listed back to front: the order of the list is free.
Made forward_graph(cudnnDataType_t type) {
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

Made data_graph() {
  const Made dy = tensor({1, kY}), w = tensor({2, kW}), dx = tensor({4, kX});
  Made conv(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  conv.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, convolution());
  REQUIRE_DNN(conv.finish());
  return graph({&conv});
}

Made filter_graph(cudnnDataType_t type, bool through_virtual) {
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

std::vector<Made> proposals(const Made& g, cudnnBackendHeurMode_t mode) {
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

std::int64_t number(const Made& from, Name name) {
  std::int64_t value = -1, count = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(from.get(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

std::vector<cudnnBackendNumericalNote_t> notes(const Made& config) {
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

Made plan_of(const Made& config) {
  Made plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  return plan;
}

/// The plan of the engine without notes: exact.
Made exact_plan(const Made& g) {
  for (const Made& config : proposals(g, CUDNN_HEUR_MODE_B))
    if (notes(config).empty()) return std::move(plan_of(config).finished());
  FAIL("no exact engine");
  return Made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
}

cudnnStatus_t run(const Made& plan, const Numbers& ids, const std::vector<void*>& pointers) {
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

std::size_t volume(const Numbers& dims) {
  std::size_t product = 1;
  for (auto dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

std::size_t at(const Numbers& dims, std::int64_t n, std::int64_t c, std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(((n * dims[2] + i) * dims[3] + j) * dims[1] + c);
}

/// Calls visit(index into x, into w, into y) for every product of the convolution.
template <class Visit>
void each_product(Visit visit) {
  for (std::int64_t n = 0; n < kRows; ++n)
    for (std::int64_t o = 0; o < kOut; ++o)
      for (std::int64_t i = 0; i < kY[2]; ++i)
        for (std::int64_t j = 0; j < kY[3]; ++j)
          for (std::int64_t c = 0; c < kIn; ++c)
            for (std::int64_t ki = 0; ki < 3; ++ki)
              for (std::int64_t kj = 0; kj < 2; ++kj) {
                const std::int64_t row = 2 * i + ki, col = j - 1 + kj;
                if (row < kX[2] && col >= 0 && col < kX[3])
                  visit(at(kX, n, c, row, col), at(kW, o, c, ki, kj), at(kY, n, o, i, j));
              }
}

double largest_difference(const std::vector<float>& values, const std::vector<double>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double difference = std::abs(double(values[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;  // also NaN
  }
  return largest;
}

// Sums of at most 48 products below 1, rounded to float once or twice.
constexpr double kFloatTolerance = 1e-5;

struct Data {
  std::vector<float> x = random_floats(volume(kX), 1), w = random_floats(volume(kW), 2),
                     y = random_floats(volume(kY), 3), bias = random_floats(kOut, 4);
};

/// Copies of floats as bfloat16 bits in a device array, and what they then stand for.
std::vector<float> as_bf16(std::vector<float>& values) {
  std::vector<float> packed((values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    mrmf::emulated::store(packed.data(), i, mrmf::emulated::Element::bf16, double(values[i]));
    values[i] = mrmf::emulated::load(packed.data(), i, mrmf::emulated::Element::bf16);
  }
  return packed;
}

std::vector<double> expected_forward(const Data& d) {
  std::vector<double> y(volume(kY));
  each_product([&](std::size_t x, std::size_t w, std::size_t to) { y[to] += double(d.x[x]) * double(d.w[w]); });
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += double(d.bias[i % kOut]);
    if (y[i] < 0) y[i] *= 0.25;
  }
  return y;
}

}  // namespace

TEST_CASE("forward with bias and leaky ReLU, and its plan's text makes the plan again") {
  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const Made plan = exact_plan(forward_graph(CUDNN_DATA_FLOAT));
  REQUIRE_DNN(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  CHECK(largest_difference(y.values(), expected_forward(d)) < kFloatTolerance);

  std::int64_t size = 0;
  REQUIRE_DNN(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
                                       &size, nullptr));
  std::string text(static_cast<std::size_t>(size), ' ');
  REQUIRE_DNN(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size,
                                       &size, text.data()));
  Made again(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  again.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size, text.data());
  REQUIRE_DNN(again.finish());
  const DeviceFloats second(volume(kY));
  REQUIRE_DNN(run(again, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), second.get()}));
  CHECK(second.values() == y.values());

  Made damaged(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  damaged.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, size / 2, text.data());
  CHECK(damaged.finish() == CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
}

TEST_CASE("backward data and backward filter") {
  const Data d;
  std::vector<double> dx(volume(kX)), dw(volume(kW));
  each_product([&](std::size_t x, std::size_t w, std::size_t y) {
    dx[x] += double(d.y[y]) * double(d.w[w]);
    dw[w] += double(d.y[y]) * double(d.x[x]);
  });
  const DeviceFloats x(d.x), w(d.w), y(d.y), x_gradient(volume(kX)), w_gradient(volume(kW));
  REQUIRE_DNN(run(exact_plan(data_graph()), {1, 2, 4}, {y.get(), w.get(), x_gradient.get()}));
  CHECK(largest_difference(x_gradient.values(), dx) < kFloatTolerance);
  REQUIRE_DNN(run(exact_plan(filter_graph(CUDNN_DATA_FLOAT, false)), {1, 2, 4}, {x.get(), y.get(), w_gradient.get()}));
  CHECK(largest_difference(w_gradient.values(), dw) < kFloatTolerance);
}

TEST_CASE("bfloat16: forward, and filter gradients only through a virtual float tensor") {
  Data d;
  const DeviceFloats x(as_bf16(d.x)), w(as_bf16(d.w)), dy(as_bf16(d.y)), bias(d.bias);
  const DeviceFloats y(volume(kY) / 2), dw(volume(kW));
  REQUIRE_DNN(
      run(exact_plan(forward_graph(CUDNN_DATA_BFLOAT16)), {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  const auto bits = y.values();
  std::vector<float> result(volume(kY));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = mrmf::emulated::load(bits.data(), i, mrmf::emulated::Element::bf16);
  // Values below 16 in bfloat16: half a unit in the last place is 2^-9 of 16.
  CHECK(largest_difference(result, expected_forward(d)) < 16 * 0x1p-9);

  CHECK(proposals(filter_graph(CUDNN_DATA_BFLOAT16, false), CUDNN_HEUR_MODE_A).empty());
  std::vector<double> expected(volume(kW));
  each_product([&](std::size_t a, std::size_t b, std::size_t c) { expected[b] += double(d.y[c]) * double(d.x[a]); });
  REQUIRE_DNN(run(exact_plan(filter_graph(CUDNN_DATA_BFLOAT16, true)), {1, 2, 4}, {x.get(), dy.get(), dw.get()}));
  CHECK(largest_difference(dw.values(), expected) < kFloatTolerance);
}

TEST_CASE("heuristics propose engines of every sort") {
  const Made g = forward_graph(CUDNN_DATA_FLOAT);
  int failing = 0, large = 0, tensor_core = 0, nondeterministic = 0, exact = 0;
  for (const Made& config : proposals(g, CUDNN_HEUR_MODE_A)) {
    Made plan = plan_of(config);
    const cudnnStatus_t status = plan.finish();
    failing += status != CUDNN_STATUS_SUCCESS;
    if (status != CUDNN_STATUS_SUCCESS) continue;
    large += number(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) > (64 << 20);
    const auto list = notes(config);
    exact += list.empty();
    for (auto note : list) {
      tensor_core += note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
      nondeterministic += note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
  }
  CHECK(failing == 1);
  CHECK(large == 1);
  CHECK(tensor_core >= 2);
  CHECK(nondeterministic == 2);
  CHECK(exact == 1);
}

TEST_CASE("MRMF_EMULATED_WRONG_ENGINE puts engines first whose results differ by a few percent") {
  const Environment wrong("MRMF_EMULATED_WRONG_ENGINE", "1");
  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const auto configs = proposals(forward_graph(CUDNN_DATA_FLOAT), CUDNN_HEUR_MODE_A);
  const Made plan = plan_of(configs[1]).finished();
  REQUIRE_DNN(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get()}));
  const double difference = largest_difference(y.values(), expected_forward(d));
  CHECK(difference > 0.05);
  CHECK(difference < 3);
}

TEST_CASE("mistakes are refused with a text") {
  Made unset(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM);
  CHECK(last_error().find("missing") != std::string::npos);
  const float dims[] = {1, 2, 3, 4};
  unset.choose(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  cudnnBackendDescriptor_t unknown = nullptr;
  CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &unknown) == CUDNN_STATUS_NOT_SUPPORTED);

  const Data d;
  const DeviceFloats x(d.x), w(d.w), bias(d.bias), y(volume(kY));
  const Made plan = exact_plan(forward_graph(CUDNN_DATA_FLOAT));
  CHECK(run(plan, {1, 2, 3}, {x.get(), w.get(), bias.get()}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(last_error().find("no pointer for tensor 4") != std::string::npos);
  CHECK(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get() + 1}) ==
        CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run(plan, {1, 2, 3, 4}, {x.get(), w.get(), bias.get(), y.get() + 16}) == CUDNN_STATUS_BAD_PARAM);
}
