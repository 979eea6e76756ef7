#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/conv_passes.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/sums.hpp"

namespace mrmf::cuda {
namespace {

class Conv final : public WeightedOp {
 public:
  Conv(Device& device, const ConvGeometry& geometry, Index max_rows)
      : device_(device), geometry_(geometry), passes_(device, geometry, true) {
    device.reserve(Device::Scratch::sums, channel_sums_bytes(device.storage(), sum_rows(max_rows), channels()));
  }

  void prepare(Index rows) override { passes_.prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    passes_.forward(x.shape.n, x.data.data(), w, b, y.data.data());
  }
  void backward_data(ConstTensor dy, ConstSpan, Tensor dx) override {
    passes_.backward_data(dy.shape.n, dy.data.data(), dx.data.data());
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    passes_.backward_weights(x.shape.n, x.data.data(), dy.data.data(), dw);
    channel_sums(device_.work(), sum_rows(dy.shape.n), channels(), dy.data.data(), db.data(),
                 device_.scratch(Device::Scratch::sums));
  }

 private:
  Index channels() const { return geometry_.out_channels; }
  Index sum_rows(Index rows) const { return rows * product(geometry_.out()); }

  Device& device_;
  ConvGeometry geometry_;
  ConvPasses passes_;
};

}  // namespace

std::unique_ptr<WeightedOp> make_conv(Device& device, const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<Conv>(device, geometry, max_rows);
}

}  // namespace mrmf::cuda
