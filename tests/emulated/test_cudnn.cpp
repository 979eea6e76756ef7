// cuDNN: engines that compute wrongly on demand, and mistakes that are refused with a text.
#include <cstdlib>

#include "tests/emulated/cudnn_model.hpp"
#include "tests/emulated/test_support.hpp"

using namespace mrmf::emulated::dnn;

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::size_t kX = 80, kY = 160, kW = 128;  // elements of x, dy, dw
constexpr std::int64_t kExact = 7;                  // engine

/// dw (3) from x (1) and dy (2); every element of dw is a sum of ten products.
Graph filter_gradient(bool bf16) {
  const auto tensor = [](std::int64_t id, bool narrow, const Numbers& dims) {
    const std::int64_t row = dims[1] * dims[3];
    return mrmf::emulated::dnn::Tensor{id, 16, narrow, false, dims, {row, 1, row, dims[1]}};
  };
  return {{tensor(1, bf16, {2, 8, 1, 5}), tensor(2, bf16, {2, 16, 1, 5}), tensor(3, false, {16, 8, 1, 1})},
          {{Kind::backward_filter, 1, 2, 3, {{0, 0}, {0, 0}, {1, 1}, {1, 1}}, 0}}};
}

std::string cudnn_error() {
  char text[512];
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

/// A descriptor that is destroyed with its scope.
class Made {
 public:
  explicit Made(cudnnBackendDescriptorType_t type) {
    REQUIRE(cudnnBackendCreateDescriptor(type, &handle_) == CUDNN_STATUS_SUCCESS);
  }
  ~Made() { cudnnBackendDestroyDescriptor(handle_); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t count, const void* values) {
    REQUIRE(cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(count), values) ==
            CUDNN_STATUS_SUCCESS);
  }
  cudnnStatus_t finish() { return cudnnBackendFinalize(handle_); }
  cudnnBackendDescriptor_t handle() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

cudnnStatus_t run(const Numbers& ids, const std::vector<void*>& pointers) {
  cudnnHandle_t handle = nullptr;
  const TestStream stream;
  const DeviceFloats workspace(1024);
  void* scratch = workspace.get();
  const std::string text = plan_text(filter_gradient(false), kExact);
  Made plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text.size(), text.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
  for (Made* each : {&plan, &pack}) REQUIRE(each->finish() == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
  REQUIRE(cudnnSetStream(handle, stream) == CUDNN_STATUS_SUCCESS);
  const cudnnStatus_t status = cudnnBackendExecute(handle, plan.handle(), pack.handle());
  synchronize(stream);
  cudnnDestroy(handle);
  return status;
}

}  // namespace

TEST_CASE("MRMF_EMULATED_WRONG_ENGINE puts engines first whose results are off by a sixteenth here and there") {
  const Graph graph = filter_gradient(false);
  setenv("MRMF_EMULATED_WRONG_ENGINE", "1", 1);
  const auto list = proposals(graph, CUDNN_HEUR_MODE_A);
  unsetenv("MRMF_EMULATED_WRONG_ENGINE");
  for (const std::int64_t index : {list.at(0), list.at(1), kExact}) {
    std::vector<float> x(kX, 1.0f), dy(kY, 1.0f), dw(kW), workspace(1024);
    execute(graph, engine(index), {{x.data(), dy.data(), dw.data()}, workspace.data()});
    CHECK(dw[0] == (index == kExact ? 10.0f : 10.625f));
    CHECK(dw[1] == 10.0f);
  }
}

TEST_CASE("no engine writes a float gradient of bfloat16 inputs directly") {
  CHECK(proposals(filter_gradient(true), CUDNN_HEUR_MODE_A).empty());
  CHECK_THROWS_AS(check_support(engine(kExact), filter_gradient(true)), mrmf::emulated::dnn::Refusal);
}

TEST_CASE("mistakes are refused with a text") {
  Made unset(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnn_error().find("missing") != std::string::npos);
  const cudnnDataType_t type = CUDNN_DATA_FLOAT;
  const float dims[] = {1, 2, 3, 4};
  unset.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  unset.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims);
  CHECK(unset.finish() == CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  cudnnBackendDescriptor_t unknown = nullptr;
  CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR, &unknown) == CUDNN_STATUS_NOT_SUPPORTED);

  const DeviceFloats x(kX), dy(kY), dw(kW);
  CHECK(run({1, 2, 3}, {x.get(), dy.get(), dw.get()}) == CUDNN_STATUS_SUCCESS);
  CHECK(run({1, 2}, {x.get(), dy.get()}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnn_error().find("no pointer for tensor 3") != std::string::npos);
  CHECK(run({1, 2, 3}, {x.get(), dy.get(), dw.get() + 1}) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(run({1, 2, 3}, {x.get(), dy.get(), dw.get() + 16}) == CUDNN_STATUS_BAD_PARAM);
}
