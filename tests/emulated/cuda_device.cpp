// Devices, versions and error texts.
#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstring>

#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;

namespace {

constexpr int kMultiprocessors = 132;

void check_device(int device) {
  require(device >= 0 && device < device_count(), cudaErrorInvalidDevice, "no device " + std::to_string(device));
}

int attribute(cudaDeviceAttr name, int device) {
  switch (name) {
    case cudaDevAttrComputeCapabilityMajor: return capability() / 10;
    case cudaDevAttrComputeCapabilityMinor: return capability() % 10;
    case cudaDevAttrMultiProcessorCount: return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
    case cudaDevAttrMaxGridDimX: return 2147483647;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 49152;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 232448;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrL2CacheSize: return 62914560;
    case cudaDevAttrClockRate: return 1980000;
    case cudaDevAttrMemoryClockRate: return 3201000;
    case cudaDevAttrGlobalMemoryBusWidth: return 6144;
    case cudaDevAttrPciBusId: return device + 1;
    case cudaDevAttrPciDeviceId: return 0;
    case cudaDevAttrPciDomainId: return 0;
    default: throw Failure(cudaErrorNotSupported, "device attribute " + std::to_string(name) + " is not emulated");
  }
}

struct Text {
  cudaError_t code;
  const char *name, *text;
};
#define MRMF_TEXT(code, text) \
  { code, #code, text }
constexpr Text kTexts[] = {
    MRMF_TEXT(cudaSuccess, "no error"),
    MRMF_TEXT(cudaErrorInvalidValue, "invalid argument"),
    MRMF_TEXT(cudaErrorMemoryAllocation, "out of memory"),
    MRMF_TEXT(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    MRMF_TEXT(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    MRMF_TEXT(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    MRMF_TEXT(cudaErrorInvalidDevice, "invalid device ordinal"),
    MRMF_TEXT(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    MRMF_TEXT(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    MRMF_TEXT(cudaErrorNotReady, "device not ready"),
    MRMF_TEXT(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    MRMF_TEXT(cudaErrorLaunchFailure, "unspecified launch failure"),
    MRMF_TEXT(cudaErrorNotSupported, "operation not supported"),
    MRMF_TEXT(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    MRMF_TEXT(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    MRMF_TEXT(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    MRMF_TEXT(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    MRMF_TEXT(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    MRMF_TEXT(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    MRMF_TEXT(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    MRMF_TEXT(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    MRMF_TEXT(cudaErrorStreamCaptureWrongThread,
              "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef MRMF_TEXT

const Text* find(cudaError_t code) {
  for (const Text& each : kTexts)
    if (each.code == code) return &each;
  return nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = device_count() > 0 ? driver_version() : 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  return api([&](Machine&, Machine::Lock&) { *count = device_count(); });
}

cudaError_t cudaSetDevice(int device) {
  return api([&](Machine&, Machine::Lock&) {
    check_device(device);
    require(!device_busy(), cudaErrorDevicesUnavailable, "another process has the device for itself");
    current_device() = device;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api([&](Machine&, Machine::Lock&) { *device = current_device(); });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  return api([&](Machine&, Machine::Lock&) {
    check_device(device);
    *value = attribute(name, device);
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api([&](Machine&, Machine::Lock&) {
    check_device(device);
    cudaDeviceProp& p = *properties;
    std::memset(&p, 0, sizeof p);
    std::strcpy(p.name, "emulated device");
    p.totalGlobalMem = device_memory();
    p.sharedMemPerBlock = 49152;
    p.sharedMemPerBlockOptin = 232448;
    p.regsPerBlock = 65536;
    p.warpSize = 32;
    p.maxThreadsPerBlock = 1024;
    p.maxGridSize[0] = 2147483647;
    p.major = capability() / 10;
    p.minor = capability() % 10;
    p.multiProcessorCount = kMultiprocessors;
    p.maxThreadsPerMultiProcessor = 2048;
    p.l2CacheSize = 62914560;
    p.memoryBusWidth = 6144;
    p.concurrentKernels = p.unifiedAddressing = 1;
    p.pciBusID = device + 1;
    p.uuid.bytes[15] = static_cast<char>(device + 1);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api([&](Machine&, Machine::Lock&) {
    check_device(device);
    require(length >= 13, cudaErrorInvalidValue, "a PCI bus id needs 13 characters");
    std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", static_cast<unsigned>(device + 1) & 0xffu);
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&](Machine&, Machine::Lock&) {
    *least = 0;
    *greatest = -5;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return api([&](Machine& machine, Machine::Lock& lock) {
    forbid_in_capture(machine, "cudaDeviceSynchronize");
    const int device = current_device();
    Machine::wait_until(lock, [&] { return machine.advance_all(device); });
  });
}

// Nobody profiles an emulated device.
cudaError_t cudaProfilerStart() {
  return api([](Machine&, Machine::Lock&) {});
}
cudaError_t cudaProfilerStop() {
  return api([](Machine&, Machine::Lock&) {});
}

/// Repairs a broken device and drops the queued work; memory and streams stay.
cudaError_t cudaDeviceReset() {
  Machine& machine = Machine::get();
  const Machine::Lock lock(machine.mutex);
  machine.reset();
  return cudaSuccess;
}

cudaError_t cudaPeekAtLastError() { return last_error().code; }

cudaError_t cudaGetLastError() {
  const cudaError_t code = last_error().code;
  last_error().code = cudaSuccess;
  return code;
}

const char* cudaGetErrorName(cudaError_t code) {
  const Text* text = find(code);
  return text ? text->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t code) {
  const Text* known = find(code);
  const char* text = known ? known->text : "unrecognized error code";
  if (code == cudaSuccess || last_error().explained != code) return text;
  thread_local std::string explained;
  explained = std::string(text) + " (" + last_error().text + ")";
  return explained.c_str();
}

}  // extern "C"
