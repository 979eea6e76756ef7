// Pooling, upsampling, norms and local contrast as operations, on their kernels and this backend's memory.
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
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
