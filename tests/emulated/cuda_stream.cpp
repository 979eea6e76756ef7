// Streams, host functions and kernel launches.
#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

#include "kernels/cuda/launch_emulated.hpp"
#include "kernels/errors.hpp"
#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;

namespace {

/// "AddBias" of the lambda in for_each_row<mrmf::cuda::(anonymous namespace)::AddBias<float> >(...).
std::string name_of(const std::type_info& body) {
  if (!kernels_file()) return "";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(body.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string name = text ? text.get() : body.name();
  for (const std::string gone : {"mrmf::cuda::", "mrmf::", "(anonymous namespace)::"})
    for (std::size_t at; (at = name.find(gone)) != std::string::npos;) name.erase(at, gone.size());
  return name.substr(0, name.find('('));
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(stream && flags <= cudaStreamNonBlocking, cudaErrorInvalidValue, "unknown stream flags");
    *stream = machine.create_stream(flags, priority);
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock&) { machine.destroy_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    CUstream_st& queue = machine.stream(stream);
    forbid_when_capturing(queue, "cudaStreamSynchronize");
    forbid_in_capture(machine, "cudaStreamSynchronize");
    Machine::wait_until(lock, [&] { return machine.advance(queue); });
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return query("work of the stream waits for something", [&](Machine& machine) {
    CUstream_st& queue = machine.stream(stream);
    forbid_when_capturing(queue, "cudaStreamQuery");
    forbid_in_capture(machine, "cudaStreamQuery");
    return machine.advance(queue);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(flags == 0, cudaErrorNotSupported, "flags of cudaStreamWaitEvent");
    CUstream_st& queue = machine.stream(stream);
    const CUevent_st& awaited = machine.event(event);
    if (awaited.capture) return join(queue, awaited);
    if (!awaited.marker) return;  // never recorded: nothing to wait for
    if (queue.capture) {
      invalidate(*queue.capture);
      throw Failure(cudaErrorStreamCaptureIsolation, "a captured stream waits for an event recorded outside");
    }
    machine.wait(queue, awaited.marker);
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return api([&](Machine& machine, Machine::Lock&) { *flags = machine.stream(stream).flags; });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return api([&](Machine& machine, Machine::Lock&) { *priority = machine.stream(stream).priority; });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(function != nullptr, cudaErrorInvalidValue, "cudaLaunchHostFunc of a null function");
    machine.enqueue(stream, [=] {
      function(data);
      return true;
    });
  });
}

}  // extern "C"

void mrmf::cuda::emulated_launch(cudaStream_t stream, std::function<void()> body) {
  api([&](Machine& machine, Machine::Lock&) {
    require(machine.stream(stream).device == current_device(), cudaErrorInvalidResourceHandle,
            "a launch into a stream of another device than the current one");
    const std::string name = name_of(body.target_type());
    machine.enqueue(
        stream,
        [kernel = std::move(body)] {
          kernel();
          return true;
        },
        name);
  });
}

void mrmf::cuda::check_launch() {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw FaultError(std::string("CUDA: ") + cudaGetErrorString(error) + " at a launch");
}
