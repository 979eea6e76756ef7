// The loss as an operation: its kernels with this backend's memory.
#include <algorithm>
#include <vector>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
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

}  // namespace mrmf::cuda
