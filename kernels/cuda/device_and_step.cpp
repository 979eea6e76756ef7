// The device with its libraries and scratch memory, and steps: their numbers, and their capture as CUDA graphs.
#include "kernels/cuda/device_and_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/conv_plan_trial_and_choice.hpp"
#include "kernels/cuda/cudnn.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/errors.hpp"

namespace mrmf::cuda {
namespace {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// The module holds code for these devices and newer ones; bfloat16 and tf32 begin with them, too.
void require_capability(int device) {
  constexpr int least = 8;
  cudaDeviceProp properties;
  MRMF_CUDA(cudaGetDeviceProperties(&properties, device));
  if (properties.major < least)
    throw ConfigError(
        fmt::format("run.device = \"cuda\": GPU {} ({}) has compute capability {}.{} and this build needs {}.0 or "
                    "newer (A100, H100, H200); use run.device = \"cpu\", or a node with such a GPU",
                    device, properties.name, properties.major, properties.minor, least));
}

// Says in a user's words why there is no device: the runtime's own text names neither version.
bool select_device(const Settings& settings) {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  const std::string advice = "; use run.device = \"cpu\", or run on a node with a GPU";
  if (status == cudaErrorInsufficientDriver && driver == 0)
    throw ConfigError("run.device = \"cuda\": no NVIDIA driver on this machine" + advice);
  if (status == cudaErrorInsufficientDriver)
    throw ConfigError(
        fmt::format("run.device = \"cuda\": the NVIDIA driver supports CUDA {} and this build needs {}; "
                    "update the driver or use run.device = \"cpu\"",
                    version_text(driver), version_text(runtime)));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0))
    throw ConfigError("run.device = \"cuda\": no NVIDIA GPU is visible to this process" + advice +
                      " (CUDA_VISIBLE_DEVICES, the scheduler's --gpus)");
  MRMF_CUDA(status);
  if (settings.device >= count)
    throw ConfigError(fmt::format("GPU {} is wanted and this process sees {}", settings.device, count));
  require_capability(settings.device);
  const cudaError_t taken = cudaSetDevice(settings.device);
  if (taken == cudaErrorDevicesUnavailable || taken == cudaErrorDeviceAlreadyInUse)
    throw ConfigError(
        fmt::format("run.device = \"cuda\": GPU {} is in use by another process, or may not be used; end that process "
                    "(nvidia-smi lists it), or use run.device = \"cpu\"",
                    settings.device));
  MRMF_CUDA(taken);
  return true;
}

std::string cublas_version_text(std::size_t version) {
  return fmt::format("{}.{}", version / 10000, version / 100 % 100);
}

std::string cudnn_version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::size_t workspace_of_device() {
  constexpr std::size_t least = std::size_t{64} << 20, most = std::size_t{2} << 30;
  std::size_t available = 0, total = 0;
  MRMF_CUDA(cudaMemGetInfo(&available, &total));
  return std::clamp(total / 32, least, most);
}

const char* to_text(Precision precision) {
  switch (precision) {
    case Precision::fp32: return "fp32";
    case Precision::tf32: return "tf32";
    case Precision::bf16: return "bf16";
  }
  return "";
}

}  // namespace

Device::Device(const Settings& settings)
    : settings_(settings),
      storage_(Storage::of(settings.precision == Precision::bf16)),
      selected_(select_device(settings)),
      step_graphs_(compute_.get(), settings.graphs),
      step_feed_(waiter_) {
  if (settings_.workspace == 0) settings_.workspace = workspace_of_device();
  open_libraries();
  model_ = std::make_unique<DeviceModel>(DeviceModel::current(cudnn_.get()));
  plans_ = std::make_unique<PlanChooser>(*this);
}

Device::~Device() { cudaStreamSynchronize(compute_.get()); }  // memory must not be freed under queued work

void Device::open_libraries() {
  if (cudnnGetVersion() < CUDNN_VERSION)
    throw ConfigError(
        fmt::format("run.device = \"cuda\": found cuDNN {}, and this build needs at least {}; put it first "
                    "in LD_LIBRARY_PATH",
                    cudnn_version_text(cudnnGetVersion()), cudnn_version_text(CUDNN_VERSION)));
  // Within a major version, all of them have what is called here.
  if (cublasLtGetVersion() / 10000 < CUBLAS_VERSION / 10000)
    throw ConfigError(
        fmt::format("run.device = \"cuda\": found cuBLASLt {}, and this build needs at least {}.0; put it first "
                    "in LD_LIBRARY_PATH",
                    cublas_version_text(cublasLtGetVersion()), CUBLAS_VERSION / 10000));
  cudnnHandle_t cudnn = nullptr;
  MRMF_CUDNN(cudnnCreate(&cudnn));
  cudnn_.reset(cudnn);
  MRMF_CUDNN(cudnnSetStream(cudnn, stream()));
  cublasLtHandle_t cublas = nullptr;
  MRMF_CUBLAS(cublasLtCreate(&cublas));
  cublas_.reset(cublas);
}

std::string Device::description() const {
  int driver = 0, runtime = 0;
  MRMF_CUDA(cudaDriverGetVersion(&driver));
  MRMF_CUDA(cudaRuntimeGetVersion(&runtime));
  std::size_t available = 0, total = 0;
  MRMF_CUDA(cudaMemGetInfo(&available, &total));
  return fmt::format("{} ({:.0f} GB), CUDA {} (driver {}), cuDNN {}, cuBLASLt {}, {}{}{}", name(),
                     static_cast<double>(total) * 1e-9, version_text(runtime), version_text(driver),
                     cudnn_version_text(cudnnGetVersion()), cublasLtGetVersion(), to_text(settings_.precision),
                     settings_.deterministic ? ", deterministic" : "", settings_.graphs ? "" : ", no graphs");
}

Device::Lease::Lease(Device& device, Scratch use)
    : leased_(device.shared(use).leased), memory_(device.shared(use).memory.get()) {
  MRMF_CHECK(!leased_, "two operations want the same scratch memory in one call");
  leased_ = true;
}

void Device::reserve(Scratch use, std::size_t bytes) {
  DeviceBuffer& buffer = shared(use).memory;
  if (bytes <= buffer.bytes()) return;
  MRMF_CHECK(!shared(use).leased, "scratch memory moves while an operation has it");
  synchronise();
  step_graphs_.drop_captures();  // captures hold the old address
  buffer = {};
  buffer = DeviceBuffer(bytes);
}

std::size_t Device::free_memory() const {
  std::size_t available = 0, total = 0;
  MRMF_CUDA(cudaMemGetInfo(&available, &total));
  return available;
}

int Device::shared_memory() const {
  int bytes = 0;
  MRMF_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, settings_.device));
  return bytes;
}

bool is_narrow_on(const Device& device, const ConvGeometry& geometry) {
  return device.settings().precision != Precision::fp32 && is_narrow(device.storage(), geometry) &&
         narrow_conv_shared_bytes(device.storage()) <= device.shared_memory();
}

bool is_cube_on(const Device& device, const ConvGeometry& geometry, Index rows) {
  constexpr Index least = Index{1} << 16;
  return device.settings().precision != Precision::fp32 && is_cube(device.storage(), geometry) &&
         rows * product(geometry.out()) >= least && cube_conv_shared_bytes(device.storage()) <= device.shared_memory();
}

bool Device::is_lost() const {
  cudaGetLastError();  // clears a single call's error; a broken device reports its error again and again
  const cudaError_t status = cudaStreamQuery(compute_.get());
  return status != cudaSuccess && status != cudaErrorNotReady;
}

void Device::synchronise() const { waiter_.wait(compute_.get()); }

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
