#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/bias_pool.hpp"
#include "kernels/cuda/conv_passes.hpp"
#include "kernels/cuda/device.hpp"

namespace mrmf::cuda {
namespace {

/// cuDNN convolves into scratch memory; bias, pooling and ReLU are one kernel behind it. Backward expands the pooled
/// gradient into the same scratch memory, so that of the full output nothing outlives the call.
class ConvPoolRelu final : public ConvPoolOp {
 public:
  ConvPoolRelu(Device& device, const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows)
      : device_(device), pool_(pool), passes_(device, conv, false) {
    const Storage& storage = device.storage();
    const Shape full{max_rows, conv.out(), conv.out_channels, 3};
    device.reserve(Device::Scratch::output, static_cast<std::size_t>(storage.floats(full)) * sizeof(float));
    device.reserve(Device::Scratch::sums, bias_pool_bytes(storage, pool, max_rows));
  }

  void prepare(Index rows) override { passes_.prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y, std::span<std::uint8_t> winner) override {
    passes_.forward(x.shape.n, x.data.data(), w, {}, full());
    bias_pool_forward(device_.work(), pool_, x.shape.n, {full(), b.data(), y.data.data(), winner.data()});
  }
  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan, Span dw,
                Span db, Tensor dx) override {
    bias_pool_backward(
        device_.work(), pool_, x.shape.n,
        {y.data.data(), dy.data.data(), winner.data(), full(), db.data(), device_.scratch(Device::Scratch::sums)});
    passes_.backward_weights(x.shape.n, x.data.data(), full(), dw);
    if (!dx.data.empty()) passes_.backward_data(x.shape.n, full(), dx.data.data());
  }

 private:
  void* full() const { return device_.scratch(Device::Scratch::output); }

  Device& device_;
  PoolGeometry pool_;
  ConvPasses passes_;
};

}  // namespace

std::unique_ptr<ConvPoolOp> make_conv_pool_relu(Device& device, const ConvGeometry& conv, const PoolGeometry& pool,
                                                Index max_rows) {
  if (pool.kind != PoolKind::max || pool.stride != pool.window) return nullptr;
  return std::make_unique<ConvPoolRelu>(device, conv, pool, max_rows);
}

}  // namespace mrmf::cuda
