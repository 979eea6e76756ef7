// The backend's memory and its steps, and the door of the module.
#include "kernels/cuda/backend.hpp"

#include <cuda_profiler_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "generated/cuda_interface.hpp"
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/module.hpp"

namespace mrmf::cuda {
Arena CudaBackend::allocate(Index count) {
  const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(count) * sizeof(float), 16);
  auto* const data = static_cast<float*>(device_memory(bytes));
  Arena arena(
      data, static_cast<std::size_t>(count), +[](float* p) { cudaFree(p); });
  MRMF_CUDA(cudaMemsetAsync(data, 0, bytes, device_.stream()));
  return arena;
}

void CudaBackend::require_memory(Index floats, const std::string& what) {
  const double wanted = 4e-9 * static_cast<double>(floats);
  const double free = 1e-9 * static_cast<double>(device_.free_memory());
  if (wanted > free)
    throw ConfigError(
        fmt::format("{} needs {:.2f} GB of device memory and {} has {:.2f} GB free; use a smaller "
                    "training.batch, or run.precision = \"bf16\"",
                    what, wanted, device_.name(), free));
}

void CudaBackend::write(ConstSpan host, Span x) {
  copy(host.data(), x.data(), host.size_bytes(), cudaMemcpyHostToDevice);
}

void CudaBackend::read(ConstSpan x, Span host) { copy(x.data(), host.data(), x.size_bytes(), cudaMemcpyDeviceToHost); }

void CudaBackend::write_activation(ConstSpan host, Tensor x) {
  const DeviceBuffer raw(host.size_bytes());
  copy(host.data(), raw.get(), host.size_bytes(), cudaMemcpyHostToDevice);
  import_activation(device_.work(), x.shape, {1, 1, 1}, raw.get<float>(), x.data.data());
  device_.synchronise();
}

void CudaBackend::read_activation(ConstTensor x, Span host) {
  const DeviceBuffer raw(host.size_bytes());
  export_activation(device_.work(), x.shape, x.data.data(), raw.get<float>());
  copy(raw.get(), host.data(), host.size_bytes(), cudaMemcpyDeviceToHost);
}

std::unique_ptr<Feed> CudaBackend::feed(const Shape& samples, Index outputs) {
  prepare_steps(samples.n);
  return make_feed(device_, samples, outputs, {1, 1, 1});
}

std::unique_ptr<Feed> CudaBackend::averaging_feed(const Shape& fine, Index outputs, const Extent& factors) {
  prepare_steps(fine.n);
  return make_feed(device_, fine, outputs, factors);
}

std::unique_ptr<SampleTable> CudaBackend::table(const SampleTable::Settings& settings) {
  prepare_steps(settings.most_rows);
  return make_table(device_, settings);
}

void CudaBackend::begin(const StepContext& step) {
  if (device_.step_feed().send(step, device_.stream())) device_.step_graphs().drop_captures();
}

void CudaBackend::prepare_steps(Index rows) {
  if (device_.step_feed().reserve(rows, device_.stream())) device_.step_graphs().drop_captures();
}

// Waits before as well: a copy of pageable memory blocks inside CUDA, where nobody would notice that a sum in front of
// it never ends.
void CudaBackend::copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  device_.synchronise();
  MRMF_CUDA(cudaMemcpyAsync(to, from, bytes, kind, device_.stream()));
  device_.synchronise();
}

}  // namespace mrmf::cuda

const char* mrmf_cuda_interface() { return kCudaInterface; }

mrmf::Backend* mrmf_make_cuda_backend(const mrmf::cuda::Settings& settings) {
  return new mrmf::cuda::CudaBackend(settings);
}

int mrmf_cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int mrmf_cuda_device_properties(char* text, int size) {
  const std::string json = mrmf::cuda::DeviceModel::current(nullptr).json();
  if (size > 0) text[json.copy(text, static_cast<std::size_t>(size) - 1)] = '\0';
  return static_cast<int>(json.size()) + 1;
}

void mrmf_cuda_profile(bool on) { MRMF_CUDA(on ? cudaProfilerStart() : cudaProfilerStop()); }

void mrmf_cuda_device_address(int device, char* text, int size) {
  MRMF_CUDA(cudaDeviceGetPCIBusId(text, size, device));
}
