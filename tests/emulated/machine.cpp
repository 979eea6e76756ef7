#include "tests/emulated/machine.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/emulated/capture.hpp"
#include "tests/emulated/settings.hpp"

namespace mrmf::emulated {
namespace {

/// Opens all devices' memory while work runs.
class OpenMemory {
 public:
  explicit OpenMemory(std::map<int, std::unique_ptr<DeviceMemory>>& memories) : memories_(memories) {
    for (auto& [device, memory] : memories_) memory->open();
  }
  ~OpenMemory() {
    for (auto& [device, memory] : memories_) memory->close();
  }
  OpenMemory(const OpenMemory&) = delete;
  OpenMemory& operator=(const OpenMemory&) = delete;

 private:
  std::map<int, std::unique_ptr<DeviceMemory>>& memories_;
};

/// Every piece of work has arrays of its own. Memory that goes back to the system meanwhile costs half of the time.
Machine* keeping_memory(Machine* made) {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 1 << 26);
  return made;
}

}  // namespace

Machine& Machine::get() {
  static auto* machine = keeping_memory(new Machine);
  return *machine;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

void check_devices() {
  require(driver_version() >= 13000, cudaErrorInsufficientDriver, "the emulated driver is older than CUDA 13.0");
  require(device_count() > 0, cudaErrorNoDevice, "MRMF_EMULATED_GPUS is 0");
}

DeviceMemory& Machine::memory(int device) {
  auto& memory = memories_[device];
  if (!memory) memory = std::make_unique<DeviceMemory>(device_memory(), open_memory());
  return *memory;
}

DeviceMemory* Machine::memory_of(const void* pointer) {
  for (auto& [device, memory] : memories_)
    if (memory->owns(pointer)) return memory.get();
  return nullptr;
}

cudaStream_t Machine::create_stream(unsigned flags, int priority) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = priority;
  cudaStream_t handle = stream.get();
  streams_[handle] = std::move(stream);
  return handle;
}

void Machine::destroy_stream(cudaStream_t handle) {
  CUstream_st& gone = stream(handle);
  if (gone.capture) invalidate(*gone.capture);
  retired_.push_back(std::move(streams_[handle]));
  streams_.erase(handle);
  drop_retired();
}

CUstream_st& Machine::stream(cudaStream_t handle) {
  require(handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread, cudaErrorInvalidValue,
          "the default stream is refused: give the work a stream of its own");
  const auto at = streams_.find(handle);
  require(at != streams_.end(), cudaErrorInvalidResourceHandle, "no such stream (destroyed?)");
  return *at->second;
}

void Machine::each_stream(const std::function<void(CUstream_st&)>& visit) {
  for (auto& [handle, each] : streams_) visit(*each);
}

cudaEvent_t Machine::create_event(unsigned flags) {
  auto event = std::make_unique<CUevent_st>();
  event->flags = flags;
  cudaEvent_t handle = event.get();
  events_[handle] = std::move(event);
  return handle;
}

void Machine::destroy_event(cudaEvent_t handle) {
  event(handle);
  events_.erase(handle);
}

CUevent_st& Machine::event(cudaEvent_t handle) {
  const auto at = events_.find(handle);
  require(at != events_.end(), cudaErrorInvalidResourceHandle, "no such event (destroyed?)");
  return *at->second;
}

void Machine::enqueue(cudaStream_t handle, Work work, const std::string& name) {
  CUstream_st& target = stream(handle);
  if (target.capture) return add_node(target, std::move(work), name);
  order_after_default(target);
  target.queue.push_back({std::move(work), nullptr, nullptr});
}

void Machine::enqueue_default(Work work) {
  for (auto& [handle, other] : streams_)
    if (!(other->flags & cudaStreamNonBlocking) && !other->queue.empty()) wait(legacy_, record(*other));
  legacy_.queue.push_back({std::move(work), nullptr, nullptr});
}

void Machine::order_after_default(CUstream_st& stream) {
  if (!(stream.flags & cudaStreamNonBlocking) && !legacy_.queue.empty()) wait(stream, record(legacy_));
}

MarkerPtr Machine::record(CUstream_st& stream) {
  auto marker = std::make_shared<Marker>();
  marker->stream = &stream;
  stream.queue.push_back({nullptr, nullptr, marker});
  return marker;
}

void Machine::wait(CUstream_st& stream, const MarkerPtr& marker) {
  if (!marker->done) stream.queue.push_back({nullptr, marker, nullptr});
}

/// True when the task is finished. What it throws breaks the device.
bool Machine::run(Task& task) {
  bool finished = false;
  try {
    if (task.wait) finished = task.wait->done || advance(*task.wait->stream, task.wait.get());
    if (task.work && (finished = task.work())) clock.add_work();
    if (task.set) {
      task.set->time = clock.now();
      task.set->done = finished = true;
    }
  } catch (const std::exception& error) {
    broken_ = std::make_unique<Failure>(cudaErrorLaunchFailure, error.what());
    report("CUDA", error.what());
  }
  return finished;
}

bool Machine::advance(CUstream_st& stream, const Marker* until) {
  if (stream.queue.empty() || (until && until->done)) return true;
  OpenMemory open(memories_);
  while (!stream.queue.empty() && !(until && until->done)) {
    if (!run(stream.queue.front())) return broken_ != nullptr;
    stream.queue.pop_front();
  }
  for (auto& [device, memory] : memories_)
    if (const std::string damage = memory->damage(); !damage.empty() && !broken_) {
      broken_ = std::make_unique<Failure>(cudaErrorIllegalAddress, damage);
      report("CUDA", damage);
    }
  return true;
}

bool Machine::advance_all(int device) {
  bool all = advance(legacy_);
  for (auto& [handle, each] : streams_)
    if (each->device == device && !advance(*each)) all = false;
  for (auto& each : retired_)
    if (each->device == device && !advance(*each)) all = false;
  drop_retired();
  return all;
}

void Machine::reset() {
  broken_.reset();
  legacy_.queue.clear();
  for (auto& [handle, each] : streams_) {
    for (Task& task : each->queue)
      if (task.set) task.set->done = true;
    each->queue.clear();
  }
  retired_.clear();
}

void Machine::drop_retired() {
  std::erase_if(retired_, [](const auto& stream) { return stream->queue.empty(); });
}

void Machine::wait_until(Lock& lock, const std::function<bool()>& step) {
  auto pause = std::chrono::microseconds(20);
  while (!step()) {
    lock.unlock();
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
    lock.lock();
  }
}

void enqueue(cudaStream_t stream, Work work, const std::string& name) {
  Machine& machine = Machine::get();
  Machine::Lock lock(machine.mutex);
  if (machine.broken()) throw *machine.broken();
  machine.enqueue(stream, std::move(work), name);
}

bool is_device_memory(const void* pointer, std::size_t bytes) {
  Machine& machine = Machine::get();
  Machine::Lock lock(machine.mutex);
  const DeviceMemory* memory = machine.memory_of(pointer);
  return memory && memory->reach(pointer) >= bytes;
}

}  // namespace mrmf::emulated
