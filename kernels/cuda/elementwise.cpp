// The plain functions: their kernels with this backend's memory and the numbers of the step.
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
namespace {

Index vectors(ConstSpan x) { return static_cast<Index>(x.size() / 4); }  // whole vectors of 16 bytes

}  // namespace

void CudaBackend::swap(Span a, Span b) { cuda::swap(device_.stream(), a, b); }

void CudaBackend::fill(Span x, float value) { cuda::fill(device_.stream(), x, value); }

void CudaBackend::reshape(ConstTensor x, Tensor y) {
  cuda::reshape(device_.work(), x.shape, x.data.data(), y.shape, y.data.data());
}

void CudaBackend::activate(ActivationKind kind, float slope, ConstTensor x, Tensor y) {
  cuda::activate(device_.work(), kind, slope, x.shape, x.data.data(), y.data.data());
}

void CudaBackend::activate_backward(ActivationKind kind, float slope, ConstTensor kept, ConstTensor dy, Tensor dx) {
  cuda::activate_backward(device_.work(), kind, slope, kept.shape, kept.data.data(), dy.data.data(), dx.data.data());
}

void CudaBackend::dropout(const StepContext& step, const DropoutSettings& settings, ConstTensor x, Tensor y) {
  if (step.training)
    cuda::dropout(device_.work(), {settings, device_.step(), device_.ids()}, x.shape, x.data.data(), y.data.data());
  else
    cuda::copy(device_.work(), vectors(x.data), x.data.data(), y.data.data());
}

void CudaBackend::add(ConstTensor a, ConstTensor b, Tensor y) {
  cuda::add(device_.work(), vectors(y.data), a.data.data(), b.data.data(), y.data.data());
}

void CudaBackend::copy_channels(ConstTensor x, Index from, Tensor y, Index to, Index count) {
  cuda::copy_channels(device_.work(), {x.shape, from, to, count}, x.data.data(), y.shape, y.data.data());
}

void CudaBackend::copy_box(ConstTensor x, Tensor y, const BoxCopy& box) {
  cuda::copy_box(device_.work(), box, x.shape, x.data.data(), y.shape, y.data.data());
}

// Pads of float32 are zeros, which the sum keeps.
void CudaBackend::add_over(AllReduce& ranks, Tensor x, Span floats) {
  if (!device_.storage().bf16) return Backend::add_over(ranks, x, floats);
  MRMF_CHECK(std::ssize(floats) >= x.shape.count(), "no room for a sum in float32");
  const Span sum = floats.first(static_cast<std::size_t>(x.shape.count()));
  export_activation(device_.work(), x.shape, x.data.data(), sum.data());
  ranks.start(sum);
  ranks.finish();
  import_activation(device_.work(), x.shape, {1, 1, 1}, sum.data(), x.data.data());
}

void CudaBackend::append_history(const StepContext&, ConstSpan value, Span history) {
  cuda::keep(device_.stream(), device_.step(), value.data(), history.data());
}

void CudaBackend::add_sparsity(const StepContext&, const SparsitySettings& settings, ConstTensor x, Tensor dx) {
  cuda::add_sparsity(device_.work(), {settings, device_.step()}, x.shape, x.data.data(), dx.data.data());
}

void CudaBackend::scale_rows(Span w, Index count, float length) {
  cuda::scale_rows(device_.stream(), w, count, length);
}

void CudaBackend::accumulate(ConstSpan x, Span y) { cuda::accumulate(device_.stream(), x, y); }

namespace {

class Clip final : public ClipOp {
 public:
  Clip(Device& device, Index count) : device_(device) { device.reserve(Device::Scratch::sums, clip_bytes(count)); }

  void run(Span x, float most) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    cuda::clip(device_.stream(), x, most, sums.get());
  }
  void run_over(Span x, float most, std::span<const Span> counted, AllReduce& ranks) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    clip_over(device_.stream(), x, most, counted, ranks, sums.get());
  }

 private:
  Device& device_;
};

}  // namespace

std::unique_ptr<ClipOp> CudaBackend::clip(Index count) { return std::make_unique<Clip>(device_, count); }

void CudaBackend::sgd(const StepContext&, Span w, ConstSpan dw, Span velocity) {
  cuda::sgd(device_.stream(), device_.step(), w, dw, velocity);
}

void CudaBackend::lion(const StepContext&, Span w, ConstSpan dw, Span m) {
  cuda::lion(device_.stream(), device_.step(), w, dw, m);
}

void CudaBackend::lion_directions(const StepContext&, Span dw, Span m) {
  cuda::lion_directions(device_.stream(), device_.step(), dw, m);
}

void CudaBackend::lion_move(const StepContext&, Span w, ConstSpan directions) {
  cuda::lion_move(device_.stream(), device_.step(), w, directions);
}

void CudaBackend::adam(const StepContext&, std::size_t group, Span w, ConstSpan dw, Span m, Span v) {
  cuda::adam(device_.stream(), device_.step(), group, w, dw, m, v);
}

}  // namespace mrmf::cuda
