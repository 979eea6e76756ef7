// Events.
#include "tests/emulated/capture.hpp"
#include "tests/emulated/machine.hpp"

using namespace mrmf::emulated;

namespace {

/// The event's last recording; throws where host code may not ask for it.
MarkerPtr outside_capture(Machine& machine, cudaEvent_t handle, const char* what) {
  const CUevent_st& event = machine.event(handle);
  if (event.capture) {
    invalidate(*event.capture);
    throw Failure(cudaErrorCapturedEvent, std::string(what) + " of an event that was recorded in a capture");
  }
  forbid_in_capture(machine, what);
  return event.marker;
}

bool reached(Machine& machine, const MarkerPtr& marker) {
  return !marker || marker->done || machine.advance(*marker->stream, marker.get());
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(event && flags <= (cudaEventBlockingSync | cudaEventDisableTiming), cudaErrorInvalidValue,
            "unknown event flags (interprocess events are not emulated)");
    *event = machine.create_event(flags);
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api([&](Machine& machine, Machine::Lock&) { machine.destroy_event(event); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream, unsigned flags) {
  return api([&](Machine& machine, Machine::Lock&) {
    require(flags == 0, cudaErrorNotSupported, "flags of cudaEventRecord");
    CUstream_st& queue = machine.stream(stream);
    CUevent_st& event = machine.event(handle);
    event.capture = queue.capture;
    event.nodes = queue.tail;
    if (queue.capture) {
      require(!queue.capture->invalid, cudaErrorStreamCaptureInvalidated, "the capture was invalidated before");
      event.marker.reset();
    } else {
      event.marker = machine.record(queue);
    }
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return query("work before the event waits for something",
               [&](Machine& machine) { return reached(machine, outside_capture(machine, event, "cudaEventQuery")); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api([&](Machine& machine, Machine::Lock& lock) {
    const MarkerPtr marker = outside_capture(machine, event, "cudaEventSynchronize");
    Machine::wait_until(lock, [&] { return reached(machine, marker); });
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return api([&](Machine& machine, Machine::Lock&) {
    for (cudaEvent_t each : {start, end})
      require(!(machine.event(each).flags & cudaEventDisableTiming), cudaErrorInvalidResourceHandle,
              "the time of an event made with cudaEventDisableTiming");
    const MarkerPtr first = outside_capture(machine, start, "cudaEventElapsedTime");
    const MarkerPtr last = outside_capture(machine, end, "cudaEventElapsedTime");
    require(first && last, cudaErrorInvalidResourceHandle, "the time of an event that was never recorded");
    require(first->done && last->done, cudaErrorNotReady, "the event has not happened yet");
    *milliseconds = static_cast<float>(1e3 * (last->time - first->time));
  });
}

}  // extern "C"
