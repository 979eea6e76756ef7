#include "kernels/cuda/step.hpp"

#include <algorithm>
#include <array>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

StepFeed::StepFeed(const Waiter& waiter) : waiter_(waiter), block_(sizeof(StepBlock)) {
  for (Slot& slot : slots_) slot.block = PinnedBuffer(sizeof(StepBlock));
}

bool StepFeed::reserve(Index rows, cudaStream_t stream) {
  const auto ids = static_cast<std::size_t>(rows);
  if (ids <= capacity_) return false;
  waiter_.wait(stream);  // queued work may still read the old memory
  capacity_ = ids;
  ids_ = DeviceBuffer(capacity_ * sizeof(std::int64_t));
  for (Slot& slot : slots_) slot.ids = PinnedBuffer(capacity_ * sizeof(std::int64_t));
  return true;
}

bool StepFeed::send(const StepContext& step, cudaStream_t stream) {
  const bool moved = reserve(std::ssize(step.ids), stream);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  if (slot.used) waiter_.wait(slot.copied.get());
  *slot.block.get<StepBlock>() = StepBlock::of(step);
  MRMF_CUDA(cudaMemcpyAsync(block_.get(), slot.block.get(), sizeof(StepBlock), cudaMemcpyHostToDevice, stream));
  if (!step.ids.empty()) {
    std::ranges::copy(step.ids, slot.ids.get<std::int64_t>());
    MRMF_CUDA(cudaMemcpyAsync(ids_.get(), slot.ids.get(), step.ids.size_bytes(), cudaMemcpyHostToDevice, stream));
  }
  slot.copied.record(stream);
  slot.used = true;
  return moved;
}

namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

CapturedGraph capture(cudaStream_t stream, const std::function<void()>& calls) {
  // Thread-local: other threads (NCCL's, MPI's) may call CUDA meanwhile.
  MRMF_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t captured = nullptr;
  try {
    calls();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);  // leaves the stream usable, so that the error can be reported
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();  // that the capture failed is no news, and the next launch would be blamed for it
    throw;
  }
  MRMF_CUDA(cudaStreamEndCapture(stream, &captured));
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(captured);
  cudaGraphExec_t executable = nullptr;
  MRMF_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  return CapturedGraph(executable);
}

void StepGraphs::run(std::uint64_t key, const std::function<void()>& calls) {
  if (!enabled_) {
    calls();
    return;
  }
  if (!graphs_.contains(key)) {
    graphs_[key] = nullptr;
    calls();  // may drop all graphs, including this one
    return;
  }
  if (!graphs_[key]) {
    CapturedGraph made = capture(stream_, calls);
    graphs_[key] = std::move(made);
  }
  MRMF_CUDA(cudaGraphLaunch(graphs_[key].get(), stream_));
}

// Feeds data to the device: batch by batch, or once as a whole data set.

namespace {

/// Two batches in turn: one is copied while the host fills the other and the device computes on a third. The memory
/// that computation reads never moves, so captured steps stay valid.
class DeviceFeed final : public Feed {
 public:
  DeviceFeed(Device& device, const Shape& samples, Index outputs, const Extent& factors)
      : device_(device),
        samples_(samples),
        averaged_(average(samples, factors)),
        factors_(factors),
        outputs_(outputs),
        x_(bytes(device.storage().floats(averaged_))),
        targets_(bytes(samples.n * outputs)) {
    for (Slot& slot : slots_) {
      slot.pinned = PinnedBuffer(bytes(values(samples.n)));
      slot.raw = DeviceBuffer(bytes(values(samples.n)));
    }
  }
  ~DeviceFeed() override { cudaStreamSynchronize(device_.copy_stream()); }

  HostBatch host(Index rows) override {
    Slot& slot = slots_[next_];
    if (slot.used) device_.waiter().wait(slot.copied.get());
    float* const data = slot.pinned.get<float>();
    return {{data, size(rows)}, {data + samples(rows), static_cast<std::size_t>(rows * outputs_)}};
  }

  Batch submit(Index rows) override {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    const cudaStream_t copy = device_.copy_stream(), compute = device_.stream();
    if (slot.used) slot.taken.wait(copy);  // its last batch has been converted
    MRMF_CUDA(cudaMemcpyAsync(slot.raw.get(), slot.pinned.get(), bytes(values(rows)), cudaMemcpyHostToDevice, copy));
    slot.copied.record(copy);
    slot.copied.wait(compute);
    const Shape shape = averaged_.with_rows(rows);
    import_activation(device_.work(), samples_.with_rows(rows), factors_, slot.raw.get<float>(), x_.get());
    MRMF_CUDA(cudaMemcpyAsync(targets_.get(), slot.raw.get<float>() + samples(rows), bytes(rows * outputs_),
                              cudaMemcpyDeviceToDevice, compute));
    slot.taken.record(compute);
    slot.used = true;
    const auto floats = static_cast<std::size_t>(device_.storage().floats(shape));
    return {
        {shape, {x_.get<float>(), floats}},
        {Shape{.n = rows, .channels = outputs_}, {targets_.get<float>(), static_cast<std::size_t>(rows * outputs_)}}};
  }

 private:
  struct Slot {
    PinnedBuffer pinned;
    DeviceBuffer raw;  // the same values on the device: samples, then targets
    Event copied, taken;
    bool used = false;
  };
  static Shape average(Shape shape, const Extent& factors) {
    for (std::size_t axis = 0; axis < factors.size(); ++axis) shape.spatial[axis] /= factors[axis];
    return shape;
  }
  static std::size_t bytes(Index floats) { return static_cast<std::size_t>(floats) * sizeof(float); }
  Index samples(Index rows) const { return samples_.with_rows(rows).count(); }
  Index values(Index rows) const { return samples(rows) + rows * outputs_; }
  std::size_t size(Index rows) const { return static_cast<std::size_t>(samples(rows)); }

  Device& device_;
  Shape samples_, averaged_;  // as the host fills them, and as they are computed on
  Extent factors_;
  Index outputs_;
  DeviceBuffer x_, targets_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Feed> make_feed(Device& device, const Shape& samples, Index outputs, const Extent& factors) {
  return std::make_unique<DeviceFeed>(device, samples, outputs, factors);
}

namespace {

/// A data set in device memory, in the form that steps read. Picking a batch is then a kernel of the step.
class DeviceTable final : public SampleTable {
 public:
  DeviceTable(Device& device, const Settings& settings)
      : device_(device),
        settings_(settings),
        row_(static_cast<std::size_t>(device.storage().floats(settings.samples.with_rows(1)))),
        outputs_(static_cast<std::size_t>(settings.outputs)),
        samples_(bytes(row_, settings.samples.n)),
        targets_(bytes(outputs_, settings.samples.n)),
        x_(bytes(row_, settings.most_rows)),
        y_(bytes(outputs_, settings.most_rows)) {}

  void fill(Index row, const Feed::HostBatch& rows) override {
    const auto at = static_cast<std::size_t>(row);
    const Index count = std::ssize(rows.x) / settings_.samples.per_sample();
    const DeviceBuffer raw(rows.x.size_bytes());
    const cudaStream_t stream = device_.stream();
    MRMF_CUDA(cudaMemcpyAsync(raw.get(), rows.x.data(), rows.x.size_bytes(), cudaMemcpyHostToDevice, stream));
    import_activation(device_.work(), settings_.samples.with_rows(count), {1, 1, 1}, raw.get<float>(),
                      samples_.get<float>() + at * row_);
    MRMF_CUDA(cudaMemcpyAsync(targets_.get<float>() + at * outputs_, rows.targets.data(), rows.targets.size_bytes(),
                              cudaMemcpyHostToDevice, stream));
    device_.synchronise();
  }

  Feed::Batch gather(const StepContext& step) override {
    const Index rows = std::ssize(step.ids);
    MRMF_CHECK(rows <= settings_.most_rows, "more rows than the table was made for");
    pick(samples_, row_, rows, x_);
    pick(targets_, outputs_, rows, y_);
    const auto count = static_cast<std::size_t>(rows);
    return {{settings_.samples.with_rows(rows), {x_.get<float>(), count * row_}},
            {Shape{.n = rows, .channels = settings_.outputs}, {y_.get<float>(), count * outputs_}}};
  }

 private:
  static std::size_t bytes(std::size_t row, Index rows) { return row * static_cast<std::size_t>(rows) * sizeof(float); }
  void pick(const DeviceBuffer& from, std::size_t row, Index rows, const DeviceBuffer& to) {
    gather_rows(device_.stream(), {from.get(), static_cast<Index>(row * sizeof(float)), settings_.first}, rows,
                device_.ids(), to.get());
  }

  Device& device_;
  Settings settings_;
  std::size_t row_, outputs_;  // floats of a row
  DeviceBuffer samples_, targets_, x_, y_;
};

}  // namespace

std::unique_ptr<SampleTable> make_table(Device& device, const SampleTable::Settings& settings) {
  // The rest is for models (a fusion has two) and for libraries.
  constexpr double share = 0.4;
  const Index rows = settings.samples.n + settings.most_rows;
  const Index floats = device.storage().floats(settings.samples.with_rows(rows)) + rows * settings.outputs;
  if (settings.samples.n == 0 || !device.settings().resident ||
      4.0 * static_cast<double>(floats) > share * static_cast<double>(device.free_memory()))
    return nullptr;
  return std::make_unique<DeviceTable>(device, settings);
}

}  // namespace mrmf::cuda
