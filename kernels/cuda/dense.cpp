#include <map>

#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/sums.hpp"

namespace mrmf::cuda {
namespace {

/// y(n, out) = x(n, in) w(out, in)^T + b, seen by cuBLAS with the first index running fastest: y is out x n, x in x n,
/// w in x out.
class Dense final : public WeightedOp {
 public:
  Dense(Device& device, Index in, Index out, Index max_rows)
      : device_(device),
        in_(in),
        out_(out),
        stored_in_(device.storage().channels(in)),
        stored_out_(device.storage().channels(out)),
        as_is_(!device.storage().bf16 && stored_in_ == in && stored_out_ == out) {
    const auto bytes = [](Index count, Index element) { return static_cast<std::size_t>(count * element); };
    if (!as_is_) {
      weights_ = DeviceBuffer(bytes(stored_in_ * stored_out_, device.storage().bytes()));
      bias_ = DeviceBuffer(bytes(stored_out_, device.storage().bytes()));
    }
    if (stored_in_ != in || stored_out_ != out) gradient_ = DeviceBuffer(bytes(stored_in_ * stored_out_, 4));
    device.reserve(Device::Scratch::sums, channel_sums_bytes(device.storage(), max_rows, out));
  }

  void prepare(Index rows) override { products(rows); }

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    current_ = w.data();
    const void* bias = b.data();
    if (!as_is_) {
      pack_weights(device_.work(), {out_, 1, in_}, w.data(), weights_.get());
      import_activation(device_.work(), Shape{.n = 1, .channels = out_}, {1, 1, 1}, b.data(), bias_.get());
      current_ = weights_.get();
      bias = bias_.get();
    }
    products(x.shape.n).forward.run(current_, x.data.data(), bias, y.data.data());
  }
  void backward_data(ConstTensor dy, ConstSpan, Tensor dx) override {
    products(dy.shape.n).data.run(current_, dy.data.data(), nullptr, dx.data.data());
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    float* const result = gradient_.bytes() > 0 ? gradient_.get<float>() : dw.data();
    products(x.shape.n).weights.run(x.data.data(), dy.data.data(), nullptr, result);
    if (gradient_.bytes() > 0) unpack_weights(device_.work(), {out_, 1, in_}, result, dw.data());
    channel_sums(device_.work(), dy.shape.n, out_, dy.data.data(), db.data(), device_.scratch(Device::Scratch::sums));
  }

 private:
  struct Products {
    Matmul forward, data, weights;
  };
  Products& products(Index rows) {
    const auto found = products_.find(rows);
    if (found != products_.end()) return found->second;
    MatmulProblem forward{.rows = stored_out_, .columns = rows, .inner = stored_in_, .transpose_a = true, .bias = true};
    MatmulProblem data{.rows = stored_in_, .columns = rows, .inner = stored_out_};
    MatmulProblem weights{
        .rows = stored_in_, .columns = stored_out_, .inner = rows, .transpose_b = true, .float_result = true};
    return products_.emplace(rows, Products{Matmul(device_, forward), Matmul(device_, data), Matmul(device_, weights)})
        .first->second;
  }

  Device& device_;
  Index in_, out_, stored_in_, stored_out_;
  bool as_is_;                              // the parameters are what the products read: float32, no padding
  DeviceBuffer weights_, bias_, gradient_;  // packed; the last of the padded weights, float32
  const void* current_ = nullptr;           // the weights of the last forward, as the products read them
  std::map<Index, Products> products_;
};

}  // namespace

std::unique_ptr<WeightedOp> make_dense(Device& device, Index in, Index out, Index max_rows) {
  return std::make_unique<Dense>(device, in, out, max_rows);
}

}  // namespace mrmf::cuda
