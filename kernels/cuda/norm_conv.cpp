// The batch norm of a network's input and the convolution behind it, in one pass over the input each way.
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
namespace {

class NormConv final : public NormConvOp {
 public:
  NormConv(Device& device, const NormSettings& norm, const ConvGeometry& conv, Index max_rows)
      : device_(device), norm_(norm), conv_(conv) {
    device.reserve(Device::Scratch::sums, norm_scratch_bytes(device.storage(), plain(), max_rows));
    if (conv.bias) device.reserve(Device::Scratch::sums, bias_bytes(max_rows));
    device.reserve(Device::Scratch::workspace, narrow_conv_bytes(device.storage(), conv, max_rows));
  }

  bool keeps_normalised() const override { return false; }

  void forward(const StepContext& step, const Forward& f) override {
    const Index rows = f.x.shape.n;
    if (step.training) {
      const Device::Lease sums = device_.lease(Device::Scratch::sums);
      norm_statistics({device_.work(), plain(), sums.get(), step.team_sum}, rows, f.x.data.data(), f.memory);
    }
    const NarrowNorm norm{norm_, f.memory, step.training, true};
    narrow_conv_forward(device_.work(), {conv_, rows, &norm}, f.x.data.data(), f.w.data(),
                        conv_.bias ? f.b.data() : nullptr, f.y.data.data());
  }

  void backward(const Backward& b) override {
    const Index rows = b.x.shape.n;
    const NarrowNorm norm{norm_, b.memory, true, false};
    {
      const Device::Lease workspace = device_.lease(Device::Scratch::workspace);
      narrow_conv_weights(device_.work(), {conv_, rows, &norm},
                          {.x = b.x.data.data(),
                           .dy = b.dy.data.data(),
                           .dw = b.dw.data(),
                           .scratch = workspace.get(),
                           .w = b.w.data(),
                           .dgamma = b.dgamma.data(),
                           .dbeta = b.dbeta.data()});
    }
    if (!conv_.bias || b.db.empty()) return;
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    channel_sums(device_.work(), positions(rows), conv_.out_channels, b.dy.data.data(), b.db.data(), sums.get());
  }

 private:
  NormReluPool plain() const { return plain_norm(norm_, product(conv_.in)); }
  Index positions(Index rows) const { return rows * product(conv_.out()); }
  std::size_t bias_bytes(Index rows) const {
    return channel_sums_bytes(device_.storage(), positions(rows), conv_.out_channels);
  }

  Device& device_;
  NormSettings norm_;
  ConvGeometry conv_;
};

}  // namespace

// Null where the convolution's own kernel cannot: then the layers run one by one.
std::unique_ptr<NormConvOp> CudaBackend::norm_conv(const NormSettings& norm, const ConvGeometry& conv, Index max_rows) {
  if (!is_narrow_on(device_, conv)) return nullptr;
  return std::make_unique<NormConv>(device_, norm, conv, max_rows);
}

}  // namespace mrmf::cuda
