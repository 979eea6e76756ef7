// cudaMemcpy, cudaMemset and their asynchronous forms.
#include <cstring>
#include <memory>
#include <vector>

#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"

using namespace mrmf::emulated;

namespace {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  cudaMemcpyKind kind;
};

/// Checks both sides against the allocations and the kind; gives the kind that the addresses say.
cudaMemcpyKind check(Machine& machine, const Copy& copy) {
  const DeviceMemory* to = machine.memory_of(copy.to);
  const DeviceMemory* from = machine.memory_of(copy.from);
  require(copy.to && copy.from, cudaErrorInvalidValue, "a copy from or to a null pointer");
  require(!to || to->reach(copy.to) >= copy.bytes, cudaErrorInvalidValue, "a copy past the end of its destination");
  require(!from || from->reach(copy.from) >= copy.bytes, cudaErrorInvalidValue, "a copy past the end of its source");
  const auto kind = to ? (from ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                       : (from ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  require(copy.kind == cudaMemcpyDefault || copy.kind == kind, cudaErrorInvalidValue,
          "the direction of a copy does not fit its addresses");
  return kind;
}

Work move(const Copy& copy) {
  return [copy] {
    std::memmove(copy.to, copy.from, copy.bytes);
    return true;
  };
}

void copy_async(Machine& machine, Machine::Lock& lock, const Copy& copy, cudaStream_t stream) {
  CUstream_st& queue = machine.stream(stream);
  const cudaMemcpyKind kind = check(machine, copy);
  const bool to_pageable = !machine.memory_of(copy.to) && !machine.pinned.owns(copy.to);
  const bool from_pageable = !machine.memory_of(copy.from) && !machine.pinned.owns(copy.from);
  if (to_pageable || from_pageable) forbid_when_capturing(queue, "a copy of pageable host memory");
  if (kind == cudaMemcpyHostToDevice && from_pageable) {  // staged at the call
    const char* from = static_cast<const char*>(copy.from);
    auto staged = std::make_shared<const std::vector<char>>(from, from + copy.bytes);
    return machine.enqueue(
        stream,
        [copy, staged] {
          std::memcpy(copy.to, staged->data(), copy.bytes);
          return true;
        },
        "[memcpy]");
  }
  machine.enqueue(stream, move(copy), "[memcpy]");
  if (to_pageable || from_pageable) Machine::wait_until(lock, [&] { return machine.advance(queue); });
}

Work set(void* pointer, int value, size_t bytes) {
  return [=] {
    std::memset(pointer, value, bytes);
    return true;
  };
}

void check_set(Machine& machine, const void* pointer, size_t bytes) {
  const DeviceMemory* memory = machine.memory_of(pointer);
  require(memory && memory->reach(pointer) >= bytes, cudaErrorInvalidValue, "a memset outside of device memory");
}

}  // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    machine.stream(stream);
    if (bytes) copy_async(machine, lock, {to, from, bytes, kind}, stream);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    forbid_in_capture(machine, "cudaMemcpy");
    if (bytes == 0) return;
    const Copy copy{to, from, bytes, kind};
    const cudaMemcpyKind found = check(machine, copy);
    machine.enqueue_default(move(copy));
    // Between two places of device memory even cudaMemcpy returns before the work is done.
    if (found != cudaMemcpyDeviceToDevice) Machine::wait_until(lock, [&] { return machine.advance_default(); });
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock&) {
    machine.stream(stream);
    if (bytes == 0) return;
    check_set(machine, pointer, bytes);
    machine.enqueue(stream, set(pointer, value, bytes), "[memset]");
  });
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return api([&](Machine& machine, Machine::Lock&) {
    forbid_in_capture(machine, "cudaMemset");
    if (bytes == 0) return;
    check_set(machine, pointer, bytes);
    machine.enqueue_default(set(pointer, value, bytes));  // asynchronous, as on a device
  });
}

}  // extern "C"
