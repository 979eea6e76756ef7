#include "kernels/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/conv_plan_choice.hpp"
#include "kernels/cuda/cudnn.hpp"
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

}  // namespace mrmf::cuda
