#pragma once
#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated/failure.hpp"
#include "tests/emulated/memory.hpp"

namespace mrmf::emulated {

struct Capture;

/// Queued work; false: it cannot continue yet (a collective that waits for a peer), so its stream stays blocked.
using Work = std::function<bool()>;

/// The devices' time in seconds. It is reckoned, not measured, so that what is timed on them comes out the same on any
/// machine: every piece of work takes a microsecond and what it adds itself.
class DeviceClock {
 public:
  double now() const { return now_; }
  void add(double seconds) { now_ += seconds; }
  void add_work() { add(1e-6); }
  void add_products(double multiply_adds) { add(1e-9 * multiply_adds); }

 private:
  double now_ = 0;
};

/// One recording of an event, or a point in a stream that another one waits for.
struct Marker {
  bool done = false;
  double time = 0;                // of DeviceClock, when it was done
  cudaStream_t stream = nullptr;  // valid while not done
};
using MarkerPtr = std::shared_ptr<Marker>;

/// One entry of a stream: work, a marker to wait for, or a marker to set.
struct Task {
  Work work;
  MarkerPtr wait, set;
};

}  // namespace mrmf::emulated

/// The vendor's opaque stream and event types, completed.
struct CUstream_st {
  int device = 0, priority = 0;
  unsigned flags = 0;
  std::deque<mrmf::emulated::Task> queue;
  std::shared_ptr<mrmf::emulated::Capture> capture;  // set while capturing
  std::vector<std::size_t> tail;                     // nodes that the next captured one comes after
};

struct CUevent_st {
  unsigned flags = 0;
  mrmf::emulated::MarkerPtr marker;                  // the last recording; null: never recorded
  std::shared_ptr<mrmf::emulated::Capture> capture;  // set when last recorded in a capture
  std::vector<std::size_t> nodes;
};

namespace mrmf::emulated {

/// The emulated machine: devices' memories and streams. Work runs as late as possible: when something waits for it.
/// The vendor's interface is global, hence the one instance; it is never destroyed, as threads may outlive main.
/// Every member is used under `mutex`.
class Machine {
 public:
  static Machine& get();
  using Lock = std::unique_lock<std::mutex>;
  std::mutex mutex;

  DeviceMemory& memory(int device);
  DeviceMemory* memory_of(const void* pointer);  ///< null: not device memory
  PinnedMemory pinned;

  cudaStream_t create_stream(unsigned flags, int priority);
  void destroy_stream(cudaStream_t stream);
  CUstream_st& stream(cudaStream_t handle);  ///< checks the handle; the default streams are refused
  void each_stream(const std::function<void(CUstream_st&)>& visit);
  cudaEvent_t create_event(unsigned flags);
  void destroy_event(cudaEvent_t event);
  CUevent_st& event(cudaEvent_t handle);

  /// Appends to the stream, or to the graph that the stream is being captured into, under this name.
  void enqueue(cudaStream_t stream, Work work, const std::string& name = "");
  /// Appends to the legacy default stream, which blocking streams wait for and which waits for them.
  void enqueue_default(Work work);
  MarkerPtr record(CUstream_st& stream);
  void wait(CUstream_st& stream, const MarkerPtr& marker);

  /// Runs what can be run of the stream, up to `until` (null: all). True when that was reached.
  bool advance(CUstream_st& stream, const Marker* until = nullptr);
  bool advance_all(int device);
  bool advance_default() { return advance(legacy_); }
  /// Repeats `step` until true, letting other threads in between.
  static void wait_until(Lock& lock, const std::function<bool()>& step);

  std::vector<std::shared_ptr<Capture>> captures;  // in progress
  DeviceClock clock;                               // running work may add to it
  Failure* broken() { return broken_.get(); }
  void reset();  ///< repairs a broken device; the work that is left is dropped

 private:
  Machine() = default;
  bool run(Task& task);
  void order_after_default(CUstream_st& stream);
  void drop_retired();

  std::map<int, std::unique_ptr<DeviceMemory>> memories_;
  std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams_;
  std::vector<std::unique_ptr<CUstream_st>> retired_;  // destroyed with work left
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events_;
  CUstream_st legacy_;
  std::unique_ptr<Failure> broken_;  // the device is lost, as after an illegal access
};

int& current_device();  ///< of the calling thread

/// Runs `body(machine, lock)` under the lock and turns a Failure into the returned error.
template <class Body>
cudaError_t api(Body body);

/// For the other libraries' work; throws Failure.
void enqueue(cudaStream_t stream, Work work, const std::string& name = "");
/// Is [pointer, pointer + bytes) inside one allocation of device memory?
bool is_device_memory(const void* pointer, std::size_t bytes);

void check_devices();  ///< throws Failure when there is no device or the driver is too old

template <class Body>
cudaError_t api(Body body) {
  try {
    check_devices();
    Machine& machine = Machine::get();
    Machine::Lock lock(machine.mutex);
    if (machine.broken()) throw *machine.broken();
    body(machine, lock);
    if (machine.broken()) throw *machine.broken();
    return cudaSuccess;
  } catch (const Failure& failure) {
    return remember(failure);
  }
}

/// A call that asks whether work is done, which the body tells. It is made again and again until the answer is yes: so
/// "not ready" is no exception, whose unwinding took half of the time of several ranks, and leaves the core to whoever
/// the work waits for.
template <class Body>
cudaError_t query(const char* what_waits, Body body) {
  bool ready = true;
  const cudaError_t status = api([&](Machine& machine, Machine::Lock&) { ready = body(machine); });
  if (status != cudaSuccess || ready) return status;
  std::this_thread::yield();
  return remember(Failure(cudaErrorNotReady, what_waits));
}

}  // namespace mrmf::emulated
