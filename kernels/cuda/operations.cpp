// Operations on kernels of our own, with this backend's memory: elementwise functions and updates, the loss, pooling,
// upsampling, norms.
#include <algorithm>
#include <vector>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {

// The plain functions: their kernels with this backend's memory and the numbers of the step.

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

// The loss as an operation: its kernels with this backend's memory.

namespace {

class Loss final : public LossOp {
 public:
  Loss(Device& device, const LossSettings& settings, const Shape& output, Index target_channels)
      : device_(device),
        form_(LossWork::of(settings, output, target_channels)),
        class_weights_(settings.class_weights.size() * sizeof(float)) {
    form_.rows = output.n;
    device.reserve(Device::Scratch::sums, loss_bytes(device.storage(), form_));
    if (settings.class_weights.empty()) return;
    device.synchronise();
    MRMF_CUDA(cudaMemcpy(class_weights_.get(), settings.class_weights.data(), class_weights_.bytes(),
                         cudaMemcpyHostToDevice));
    form_.class_weights = class_weights_.get<float>();
  }

  void run(const StepContext& step, ConstTensor y, ConstTensor target, Span dy, Span sum) override {
    LossWork now = form_;
    now.rows = y.shape.n;
    now.step = device_.step();
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    now.scratch = sums.get();
    now.sample_sum = step.sample_sum;
    loss(device_.work(), now, y.data.data(), target.data.data(), dy.data(), sum.data());
  }

 private:
  Device& device_;
  LossWork form_;
  DeviceBuffer class_weights_;
};

}  // namespace

std::unique_ptr<LossOp> CudaBackend::loss(const LossSettings& settings, const Shape& output, Index target_channels) {
  check_loss(settings, output, target_channels);
  return std::make_unique<Loss>(device_, settings, output, target_channels);
}

// Pooling, upsampling, norms and local contrast as operations, on their kernels and this backend's memory.

namespace {

class Pool final : public PoolOp {
 public:
  Pool(Device& device, const PoolGeometry& geometry) : device_(device), geometry_(geometry) {}

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t> winner) override {
    pool_forward(device_.work(), geometry_, x.shape.n, x.data.data(), y.data.data(), winner.data());
  }
  void backward(ConstTensor dy, std::span<const std::uint8_t> winner, Tensor dx) override {
    pool_backward(device_.work(), geometry_, dy.shape.n, dy.data.data(), winner.data(), dx.data.data());
  }

 private:
  Device& device_;
  PoolGeometry geometry_;
};

/// The mean over all positions. Backward is that of any average pooling.
class GlobalAverage final : public PoolOp {
 public:
  GlobalAverage(Device& device, const PoolGeometry& geometry, Index max_rows) : device_(device), geometry_(geometry) {
    device.reserve(Device::Scratch::sums, global_average_bytes(device.storage(), geometry, max_rows));
  }

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    global_average(device_.work(), geometry_, x.shape.n, x.data.data(), y.data.data(), sums.get());
  }
  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override {
    pool_backward(device_.work(), geometry_, dy.shape.n, dy.data.data(), nullptr, dx.data.data());
  }

 private:
  Device& device_;
  PoolGeometry geometry_;
};

class Upsample final : public PoolOp {
 public:
  Upsample(Device& device, const UpsampleGeometry& geometry) : device_(device), geometry_(geometry) {}

  void forward(ConstTensor x, Tensor y, std::span<std::uint8_t>) override {
    upsample_forward(device_.work(), geometry_, x.shape.n, x.data.data(), y.data.data());
  }
  void backward(ConstTensor dy, std::span<const std::uint8_t>, Tensor dx) override {
    upsample_backward(device_.work(), geometry_, dy.shape.n, dy.data.data(), dx.data.data());
  }

 private:
  Device& device_;
  UpsampleGeometry geometry_;
};

class Contrast final : public ContrastOp {
 public:
  Contrast(Device& device, const ContrastGeometry& geometry) : device_(device), geometry_(geometry) {}

  void forward(ConstTensor x, Span kept, Tensor y) override {
    contrast_forward(device_.work(), geometry_, x.shape.n, x.data.data(), kept, y.data.data());
  }
  void backward(ConstTensor x, ConstTensor dy, Span kept, Tensor dx) override {
    contrast_backward(device_.work(), geometry_, x.shape.n, {x.data.data(), dy.data.data(), kept, dx.data.data()});
  }

 private:
  Device& device_;
  ContrastGeometry geometry_;
};

NormWork norm_work(const Device& device, const NormReluPool& settings, const StepContext& step,
                   const Device::Lease& sums) {
  return {device.work(), settings, sums.get(), step.team_sum};
}

/// Batch norm with the activation and pooling behind it.
class FusedNorm final : public NormOp {
 public:
  FusedNorm(Device& device, const NormReluPool& settings, Index max_rows) : device_(device), settings_(settings) {
    device.reserve(Device::Scratch::sums, norm_scratch_bytes(device.storage(), settings, max_rows));
  }

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    norm_forward(norm_work(device_, settings_, step, sums), step.training, x.shape.n, x.data.data(), memory,
                 y.data.data());
  }
  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    norm_backward(norm_work(device_, settings_, step, sums), x.shape.n,
                  {x.data.data(), dy.data.data(), dgamma.data(), dbeta.data(), dx.data.data()}, memory);
  }

 private:
  Device& device_;
  NormReluPool settings_;
};

/// Batch norm alone. Its tensors give the positions per sample.
class Norm final : public NormOp {
 public:
  Norm(Device& device, const NormSettings& settings) : device_(device), settings_(settings) {
    // Partial sums do not grow beyond this many positions.
    constexpr Index many = Index{1} << 24;
    device.reserve(Device::Scratch::sums, norm_scratch_bytes(device.storage(), plain_norm(settings, many), 1));
  }

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    norm_forward(work(step, x, sums), step.training, x.shape.n, x.data.data(), memory, y.data.data());
  }
  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    norm_backward(work(step, x, sums), x.shape.n,
                  {x.data.data(), dy.data.data(), dgamma.data(), dbeta.data(), dx.data.data()}, memory);
  }

 private:
  NormWork work(const StepContext& step, ConstTensor x, const Device::Lease& sums) const {
    return norm_work(device_, plain_norm(settings_, product(x.shape.spatial)), step, sums);
  }

  Device& device_;
  NormSettings settings_;
};

class GroupNorm final : public NormOp {
 public:
  GroupNorm(Device& device, const GroupNormSettings& settings, Index max_rows) : device_(device), settings_(settings) {
    device.reserve(Device::Scratch::sums, group_norm_bytes(device.storage(), settings, max_rows));
  }

  void forward(const StepContext& step, ConstTensor x, const NormMemory& memory, Tensor y) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    group_norm_forward(work(step, sums), x.shape.n, x.data.data(), memory, y.data.data());
  }
  void backward(const StepContext& step, ConstTensor x, ConstTensor dy, const NormMemory& memory, Span dgamma,
                Span dbeta, Tensor dx) override {
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    group_norm_backward(work(step, sums), x.shape.n,
                        {x.data.data(), dy.data.data(), dgamma.data(), dbeta.data(), dx.data.data()}, memory);
  }

 private:
  GroupNormWork work(const StepContext& step, const Device::Lease& sums) const {
    MRMF_CHECK(settings_.sample_positions == 0 || step.sample_sum != nullptr,
               "a norm of a block needs the sums over its sample");
    return {device_.work(), settings_, sums.get(), settings_.sample_positions > 0 ? step.sample_sum : nullptr};
  }

  Device& device_;
  GroupNormSettings settings_;
};

}  // namespace

std::unique_ptr<PoolOp> CudaBackend::pool(const PoolGeometry& geometry, Index max_rows) {
  if (is_global_average(geometry)) return std::make_unique<GlobalAverage>(device_, geometry, max_rows);
  return std::make_unique<Pool>(device_, geometry);
}

std::unique_ptr<ContrastOp> CudaBackend::contrast(const ContrastGeometry& geometry, Index) {
  return std::make_unique<Contrast>(device_, geometry);
}

std::unique_ptr<PoolOp> CudaBackend::upsample(const UpsampleGeometry& geometry, Index) {
  return std::make_unique<Upsample>(device_, geometry);
}

std::unique_ptr<NormOp> CudaBackend::group_norm(const GroupNormSettings& settings, Index max_rows) {
  return std::make_unique<GroupNorm>(device_, settings, max_rows);
}

std::unique_ptr<NormOp> CudaBackend::norm_relu_pool(const NormReluPool& settings, Index max_rows) {
  return std::make_unique<FusedNorm>(device_, settings, max_rows);
}

std::unique_ptr<NormOp> CudaBackend::norm(const NormSettings& settings, Index) {
  return std::make_unique<Norm>(device_, settings);
}

}  // namespace mrmf::cuda
