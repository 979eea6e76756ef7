// cuDNN's entry points.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>

#include "tests/emulated/capture.hpp"
#include "tests/emulated/cudnn_descriptor.hpp"
#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;
using namespace mrmf::emulated::dnn;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

std::string& last_text() {
  thread_local std::string text;
  return text;
}

cudnnStatus_t refused(cudnnStatus_t status, const std::string& text) {
  last_text() = text;
  report("cuDNN", text);
  return status;
}

template <class Body>
cudnnStatus_t guarded_call(Body body) {
  try {
    body();
    return CUDNN_STATUS_SUCCESS;
  } catch (const dnn::Refusal& refusal) {
    return refused(refusal.status, refusal.what());
  } catch (const Failure& failure) {
    return refused(CUDNN_STATUS_EXECUTION_FAILED_CUDART, failure.what());
  }
}

/// The device pointer of a tensor, checked against the tensor's size and promised alignment.
void* checked_pointer(const Tensor& tensor, void* pointer) {
  const std::string name = "tensor " + std::to_string(tensor.uid);
  require(reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(tensor.alignment) == 0,
          CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, name + " is not aligned as its descriptor says");
  require(is_device_memory(pointer, tensor.extent()), CUDNN_STATUS_BAD_PARAM,
          name + " does not lie in device memory with its whole size");
  return pointer;
}

Pointers pointers_of(const Descriptor& plan, const Descriptor& pack) {
  const auto ids = pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto given = pack.pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Pointers result;
  for (const Tensor& tensor : plan.graph->tensors) {
    result.data.push_back(nullptr);
    if (tensor.is_virtual) continue;
    const auto at = std::find(ids.begin(), ids.end(), tensor.uid);
    require(at != ids.end(), CUDNN_STATUS_BAD_PARAM,
            "the variant pack has no pointer for tensor " + std::to_string(tensor.uid));
    result.data.back() = checked_pointer(tensor, given[static_cast<std::size_t>(at - ids.begin())]);
  }
  const std::int64_t bytes = workspace_of(engine(plan.engine), *plan.graph);
  if (bytes == 0) return result;
  require(pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), CUDNN_STATUS_BAD_PARAM, "the plan needs a workspace");
  result.workspace = pack.pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).at(0);
  require(is_device_memory(result.workspace, static_cast<std::size_t>(bytes)), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
          "the workspace is no device memory of " + std::to_string(bytes) + " bytes");
  return result;
}

/// How many operations were recorded before; none where the stream is not being captured.
std::optional<std::size_t> recorded_before(cudaStream_t stream) {
  Machine& machine = Machine::get();
  const Machine::Lock lock(machine.mutex);
  const auto& capture = machine.stream(stream).capture;
  return capture ? std::optional(capture->nodes.size()) : std::nullopt;
}

std::string pass_of(const Graph& graph) {
  const Operation* const convolution = graph.convolution();
  if (!convolution) return "pointwise";
  if (convolution->kind == Kind::backward_data) return "backward data";
  return convolution->kind == Kind::backward_filter ? "backward weights" : "forward";
}

void trace_engine(std::int64_t index, const Graph& graph, const Pointers& pointers, cudaStream_t stream) {
  if (!trace_file()) return;
  std::ofstream file(trace_file(), std::ios::app);
  const Operation* const convolution = graph.convolution();
  file << "engine " << index << " pass " << (convolution ? static_cast<int>(convolution->kind) : -1) << " input "
       << pointers.data.front() << " captured " << recorded_before(stream).has_value() << '\n';
}

void lose_weight_gradient(const Graph& graph, const Pointers& pointers) {
  const Operation* const convolution = graph.convolution();
  if (!convolution || convolution->kind != Kind::backward_filter) return;
  const Tensor& dw = graph.tensor(convolution->y);
  if (dw.is_virtual) return;
  std::memset(pointers.data[static_cast<std::size_t>(&dw - graph.tensors.data())], 0, dw.extent());
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    default: break;
  }
  if (status >= 5000) return "CUDNN_STATUS_EXECUTION_FAILED";
  if (status >= 4000) return "CUDNN_STATUS_INTERNAL_ERROR";
  return status >= 3000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}

void cudnnGetLastErrorString(char* message, size_t size) {
  if (!message || size == 0) return;
  const size_t length = std::min(size - 1, last_text().size());
  std::memcpy(message, last_text().data(), length);
  message[length] = '\0';
  last_text().clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return guarded_call([&] {
    try {
      check_devices();
    } catch (const Failure& failure) {
      throw dnn::Refusal(CUDNN_STATUS_NOT_INITIALIZED, failure.what());
    }
    *handle = new cudnnContext;
  });
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  return guarded_call([&] {
    require(known_type(type), CUDNN_STATUS_NOT_SUPPORTED,
            "descriptor type " + std::to_string(type) + " is not emulated");
    *descriptor = new Handle{std::make_shared<Descriptor>(type)};
  });
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Handle*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return guarded_call([&] { from_handle(descriptor)->finalize(); });
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  return guarded_call([&] {
    require(values && count >= 0, CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute without values");
    const char* bytes = static_cast<const char*>(values);
    Attribute attribute{type, count, {bytes, bytes + static_cast<size_t>(count) * size_of(type)}, {}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
      for (int64_t i = 0; i < count; ++i)
        attribute.descriptors.push_back(from_handle(static_cast<const cudnnBackendDescriptor_t*>(values)[i]));
    from_handle(descriptor)->set(name, std::move(attribute));
  });
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t* count, void* values) {
  return guarded_call([&] { from_handle(descriptor)->get(name, type, room, count, values); });
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return guarded_call([&] {
    const DescriptorPtr made = from_handle(plan), variant = from_handle(pack);
    require(made->type() == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
                variant->type() == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
            CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "cudnnBackendExecute needs a plan and a variant pack");
    require(made->finalized() && variant->finalized(), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
            "the plan or the variant pack is not finalized");
    const Pointers pointers = pointers_of(*made, *variant);
    trace_engine(made->engine, *made->graph, pointers, handle->stream);
    const auto before = recorded_before(handle->stream);
    require(!before || made->engine != unrecorded_engine(), CUDNN_STATUS_NOT_SUPPORTED,
            "this engine cannot be recorded");
    const bool loses = zero_recorded_gradients() && before.value_or(0) > 0;
    enqueue(
        handle->stream,
        [graph = made->graph, index = made->engine, pointers, loses] {
          if (index == crashing_engine()) std::raise(SIGKILL);
          if (index == faulting_engine())
            throw std::runtime_error("engine " + std::to_string(index) + " is planted to fault");
          execute(*graph, engine(index), pointers);
          Machine::get().clock.add_products(multiply_adds(*graph) * (index == fast_engine() ? 0.1 : 1));
          if (loses) lose_weight_gradient(*graph, pointers);
          return true;
        },
        "cuDNN engine " + std::to_string(made->engine) + " " + pass_of(*made->graph));
  });
}

}  // extern "C"
