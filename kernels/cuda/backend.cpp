// The CUDA backend: cuDNN's convolutions, cuBLASLt's dense layers, own kernels for the rest, all queued on one stream.
#include "kernels/cuda/backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "generated/cuda_interface.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/module.hpp"

namespace mrmf::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Settings& settings) : device_(settings) {}

  std::string name() const override { return "cuda"; }
  std::string description() const override { return device_.description(); }

  Arena allocate(Index count) override {
    const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(count) * sizeof(float), 16);
    auto* const data = static_cast<float*>(device_memory(bytes));
    Arena arena(
        data, static_cast<std::size_t>(count), +[](float* p) { cudaFree(p); });
    MRMF_CUDA(cudaMemsetAsync(data, 0, bytes, device_.stream()));
    return arena;
  }
  void require_memory(Index floats, const std::string& what) override {
    const double wanted = 4e-9 * static_cast<double>(floats);
    const double free = 1e-9 * static_cast<double>(device_.free_memory());
    if (wanted > free)
      throw ConfigError(
          fmt::format("{} needs {:.2f} GB of device memory and {} has {:.2f} GB free; use a smaller "
                      "training.batch, or run.precision = \"bf16\"",
                      what, wanted, device_.name(), free));
  }
  void swap(Span a, Span b) override { cuda::swap(device_.stream(), a, b); }
  void fill(Span x, float value) override { cuda::fill(device_.stream(), x, value); }
  void write(ConstSpan host, Span x) override {
    copy(host.data(), x.data(), host.size_bytes(), cudaMemcpyHostToDevice);
  }
  void read(ConstSpan x, Span host) override { copy(x.data(), host.data(), x.size_bytes(), cudaMemcpyDeviceToHost); }
  Shape stored(const Shape& shape) const override { return device_.storage().stored(shape); }
  Index activation_floats(const Shape& shape) const override { return device_.storage().floats(shape); }
  void write_activation(ConstSpan host, Tensor x) override {
    const DeviceBuffer raw(host.size_bytes());
    copy(host.data(), raw.get(), host.size_bytes(), cudaMemcpyHostToDevice);
    import_activation(device_.work(), x.shape, {1, 1, 1}, raw.get<float>(), x.data.data());
    device_.synchronise();
  }
  void read_activation(ConstTensor x, Span host) override {
    const DeviceBuffer raw(host.size_bytes());
    export_activation(device_.work(), x.shape, x.data.data(), raw.get<float>());
    copy(raw.get(), host.data(), host.size_bytes(), cudaMemcpyDeviceToHost);
  }
  std::unique_ptr<Feed> feed(const Shape& samples, Index outputs) override {
    prepare_steps(samples.n, outputs);
    return make_feed(device_, samples, outputs, {1, 1, 1});
  }
  std::unique_ptr<Feed> averaging_feed(const Shape& fine, Index outputs, const Extent& factors) override {
    prepare_steps(fine.n, outputs);
    return make_feed(device_, fine, outputs, factors);
  }
  std::unique_ptr<SampleTable> table(const SampleTable::Settings& settings) override {
    prepare_steps(settings.most_rows, settings.outputs);
    return make_table(device_, settings);
  }

  void begin(const Step& step) override {
    if (device_.step_feed().send(step, device_.stream())) device_.recorder().forget();
  }
  void run(std::uint64_t key, const std::function<void()>& calls) override { device_.recorder().run(key, calls); }
  void forget() override { device_.recorder().forget(); }
  void finish() override { device_.synchronise(); }
  bool immediate() const override { return false; }
  std::unique_ptr<AllReduce> all_reduce(const Peers& peers) override { return make_nccl_all_reduce(device_, peers); }

  std::unique_ptr<WeightedOp> conv(const ConvGeometry& geometry, Index max_rows) override {
    return make_conv(device_, geometry, max_rows);
  }
  std::unique_ptr<PoolOp> pool(const PoolGeometry& geometry, Index) override { return make_pool(device_, geometry); }
  std::unique_ptr<NormOp> norm(const NormSettings& settings, Index) override { return make_norm(device_, settings); }
  std::unique_ptr<WeightedOp> dense(Index in, Index out, Index max_rows) override {
    return make_dense(device_, in, out, max_rows);
  }
  std::unique_ptr<ConvPoolOp> conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                             Index max_rows) override {
    return make_conv_pool_relu(device_, conv, pool, max_rows);
  }
  std::unique_ptr<NormOp> norm_relu_pool(const NormReluPool& settings, Index max_rows) override {
    return make_norm_relu_pool(device_, settings, max_rows);
  }
  void reshape(ConstTensor x, Tensor y) override {
    cuda::reshape(device_.work(), x.shape, x.data.data(), y.shape, y.data.data());
  }

  void activate(ActivationKind kind, float slope, ConstSpan x, Span y) override {
    cuda::activate(device_.work(), kind, slope, vectors(x), x.data(), y.data());
  }
  void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) override {
    cuda::activate_backward(device_.work(), kind, slope, vectors(y), y.data(), dy.data(), dx.data());
  }
  void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) override {
    if (step.training)
      cuda::dropout(device_.work(), {layer, rate, device_.step(), device_.ids()}, x.shape, x.data.data(),
                    y.data.data());
    else
      cuda::copy(device_.work(), vectors(x.data), x.data.data(), y.data.data());
  }
  void loss(const Step&, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    const Index outputs = y.shape.per_sample();
    device_.reserve(Device::Scratch::sums, loss_bytes(device_.storage(), y.shape.n, outputs));
    cuda::loss(device_.work(), {kind, y.shape.n, outputs, device_.step(), device_.scratch(Device::Scratch::sums)},
               y.data.data(), target.data.data(), dy.data(), sum.data());
  }
  void keep(const Step&, ConstSpan value, Span history) override {
    cuda::keep(device_.stream(), device_.step(), value.data(), history.data());
  }
  void sgd(const Step&, Span w, ConstSpan dw, Span velocity) override {
    cuda::sgd(device_.stream(), device_.step(), w, dw, velocity);
  }
  void adam(const Step&, std::size_t group, Span w, ConstSpan dw, Span m, Span v) override {
    cuda::adam(device_.stream(), device_.step(), group, w, dw, m, v);
  }

 private:
  // All that steps of so many rows need beyond their model's own: nothing may move once steps are recorded.
  void prepare_steps(Index rows, Index outputs) {
    if (device_.step_feed().reserve(rows, device_.stream())) device_.recorder().forget();
    device_.reserve(Device::Scratch::sums, loss_bytes(device_.storage(), rows, outputs));
  }

  static Index vectors(ConstSpan x) { return static_cast<Index>(x.size() / 4); }  // of 16 bytes

  // Waits: the host's memory may be gone when the caller goes on. And before: a copy of pageable memory blocks inside
  // CUDA, where nobody would notice that a sum in front of it never ends.
  void copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    device_.synchronise();
    MRMF_CUDA(cudaMemcpyAsync(to, from, bytes, kind, device_.stream()));
    device_.synchronise();
  }

  Device device_;
};

}  // namespace
}  // namespace mrmf::cuda

const char* mrmf_cuda_interface() { return kCudaInterface; }

mrmf::Backend* mrmf_make_cuda_backend(const mrmf::cuda::Settings& settings) {
  return new mrmf::cuda::CudaBackend(settings);
}

int mrmf_cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

void mrmf_cuda_device_address(int device, char* text, int size) {
  MRMF_CUDA(cudaDeviceGetPCIBusId(text, size, device));
}
