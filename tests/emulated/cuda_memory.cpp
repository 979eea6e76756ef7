// cudaMalloc and its relatives.
#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"

using namespace mrmf::emulated;

namespace {

/// Freeing waits for all work of the device, as CUDA does.
void finish_device(Machine& machine, Machine::Lock& lock) {
  const int device = current_device();
  Machine::wait_until(lock, [&] { return machine.advance_all(device); });
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return api([&](Machine& machine, Machine::Lock&) {
    forbid_in_capture(machine, "cudaMalloc");
    require(pointer != nullptr, cudaErrorInvalidValue, "cudaMalloc into a null pointer");
    *pointer = nullptr;
    if (bytes == 0) return;
    *pointer = machine.memory(current_device()).allocate(bytes);
    require(*pointer != nullptr, cudaErrorMemoryAllocation, std::to_string(bytes) + " bytes do not fit");
  });
}

cudaError_t cudaFree(void* pointer) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    forbid_in_capture(machine, "cudaFree");
    if (!pointer) return;
    finish_device(machine, lock);
    DeviceMemory* memory = machine.memory_of(pointer);
    require(memory && memory->free(pointer), cudaErrorInvalidValue, "cudaFree of what cudaMalloc did not give");
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return api([&](Machine& machine, Machine::Lock&) {
    const DeviceMemory& memory = machine.memory(current_device());
    *total = memory.total();
    *free = memory.total() - memory.used();
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return api([&](Machine& machine, Machine::Lock&) {
    forbid_in_capture(machine, "cudaMallocHost");
    *pointer = machine.pinned.allocate(bytes);
    require(*pointer != nullptr, cudaErrorMemoryAllocation, "no host memory");
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) { return cudaMallocHost(pointer, bytes); }

cudaError_t cudaFreeHost(void* pointer) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    forbid_in_capture(machine, "cudaFreeHost");
    if (!pointer) return;
    finish_device(machine, lock);
    require(machine.pinned.free(pointer), cudaErrorInvalidValue, "cudaFreeHost of what cudaMallocHost did not give");
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(pointer && bytes, cudaErrorInvalidValue, "cudaHostRegister of nothing");
    machine.pinned.add(pointer, bytes);
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(machine.pinned.remove(pointer), cudaErrorHostMemoryNotRegistered, "memory was not registered");
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&](Machine& machine, Machine::Lock&) {
    *attributes = {};
    attributes->device = current_device();
    void* same = const_cast<void*>(pointer);
    if (machine.memory_of(pointer)) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->devicePointer = same;
    } else if (machine.pinned.owns(pointer)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->devicePointer = attributes->hostPointer = same;
    }
  });
}

}  // extern "C"
