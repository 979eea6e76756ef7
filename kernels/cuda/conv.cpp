// Convolutions: by cuDNN plans (alone, transposed, with the max pooling and ReLU behind them), and by our own kernel
// with the batch norm of the network's input.
#include <map>
#include <memory>
#include <utility>

#include "kernels/backend.hpp"
#include "kernels/cuda/backend.hpp"
#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/conv_plan_trial_and_choice.hpp"
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {

// Convolutions by cuDNN plans: alone, transposed, and with the max pooling and ReLU behind them.

namespace {

/// A convolution's three passes on stored activations and the program's own parameters. Holds plans per number of rows,
/// and the weights in the type and padding that the plans read.
class ConvPasses {
 public:
  /// with_bias: forward adds it.
  ConvPasses(Device& device, const ConvGeometry& geometry, bool with_bias);

  void prepare(Index rows);
  void forward(Index rows, const void* x, ConstSpan w, ConstSpan b, void* y);
  /// Uses the weights that the forward before it packed, if there was one since the last backward_data() and the
  /// weights have not moved.
  void backward_data(Index rows, const void* dy, ConstSpan w, void* dx);
  void weights_moved() { packed_ = false; }
  void backward_weights(Index rows, const void* x, const void* dy, Span dw);

 private:
  struct Plans {
    bool cube = false;  // all three passes by a kernel of our own
    std::shared_ptr<const ConvPlan> forward, weights;
    PlanChooser::Choice data;  // a first layer never asks for dx, so it needs no plan for it
  };
  const Plans& plans(Index rows);
  void run(const ConvPlan& plan, const ConvPointers& pointers);
  void pack(ConstSpan w, ConstSpan b);

  Device& device_;
  ConvGeometry geometry_, padded_;
  bool with_bias_;
  bool narrow_;                    // forward and the weights' gradient by a kernel of our own
  bool as_is_;                     // plans read the parameters directly: float32, no padding
  bool packed_ = false;            // by the last forward, for the data gradient that may follow
  DeviceBuffer weights_;           // packed
  DeviceBuffer bias_;              // padded float32
  DeviceBuffer gradient_;          // gradient of the packed weights
  const void* current_ = nullptr;  // the weights that plans read
  std::map<Index, Plans> plans_;
};

ConvGeometry padded(const Storage& storage, ConvGeometry geometry) {
  geometry.in_channels = storage.channels(geometry.in_channels);
  geometry.out_channels = storage.channels(geometry.out_channels);
  return geometry;
}

WeightShape weight_shape(const ConvGeometry& geometry) {
  return {geometry.out_channels, product(geometry.kernel), geometry.in_channels};
}

ConvPasses::ConvPasses(Device& device, const ConvGeometry& geometry, bool with_bias)
    : device_(device),
      geometry_(geometry),
      padded_(padded(device.storage(), geometry)),
      with_bias_(with_bias),
      narrow_(is_narrow_on(device, geometry)),
      as_is_(!device.storage().bf16 && padded_.weights() == geometry.weights()) {
  const auto bytes = [](Index count, Index element) { return static_cast<std::size_t>(count * element); };
  if (!as_is_) {
    weights_ = DeviceBuffer(bytes(padded_.weights(), device.storage().bytes()));
    gradient_ = DeviceBuffer(weights_.bytes());
  }
  if (with_bias && padded_.out_channels != geometry.out_channels) {
    bias_ = DeviceBuffer(bytes(padded_.out_channels, sizeof(float)));
    MRMF_CUDA(cudaMemsetAsync(bias_.get(), 0, bias_.bytes(), device.stream()));
  }
}

void ConvPasses::prepare(Index rows) { plans(rows); }

const ConvPasses::Plans& ConvPasses::plans(Index rows) {
  const auto [entry, missing] = plans_.try_emplace(rows);
  if (missing) {
    if (narrow_) device_.reserve(Device::Scratch::workspace, narrow_conv_bytes(device_.storage(), geometry_, rows));
    entry->second.cube = is_cube_on(device_, geometry_, rows);
    if (entry->second.cube) {
      device_.reserve(Device::Scratch::workspace, cube_conv_bytes(device_.storage(), geometry_, rows));
      return entry->second;
    }
    ConvProblem problem{
        ConvPass::forward, padded_, rows, device_.settings().precision, with_bias_, device_.settings().deterministic};
    if (!narrow_) entry->second.forward = device_.plans().choose(problem);
    problem.bias = false;
    problem.pass = ConvPass::backward_data;
    entry->second.data = device_.plans().find(problem);
    problem.pass = ConvPass::backward_weights;
    if (!narrow_) entry->second.weights = device_.plans().choose(problem);
  }
  return entry->second;
}

void ConvPasses::run(const ConvPlan& plan, const ConvPointers& pointers) {
  const Device::Lease workspace = device_.lease(Device::Scratch::workspace);
  plan.run(device_.cudnn(), pointers, workspace.get());
}

void ConvPasses::pack(ConstSpan w, ConstSpan b) {
  current_ = w.data();
  if (!as_is_) {
    pack_weights(device_.work(), weight_shape(geometry_), w.data(), weights_.get());
    current_ = weights_.get();
  }
  if (bias_.bytes() > 0 && !b.empty())
    MRMF_CUDA(cudaMemcpyAsync(bias_.get(), b.data(), b.size_bytes(), cudaMemcpyDeviceToDevice, device_.stream()));
}

void ConvPasses::forward(Index rows, const void* x, ConstSpan w, ConstSpan b, void* y) {
  const Plans& of_rows = plans(rows);
  if (narrow_)
    return narrow_conv_forward(device_.work(), {geometry_, rows}, x, w.data(), with_bias_ ? b.data() : nullptr, y);
  if (of_rows.cube)
    return cube_conv_forward(device_.work(), geometry_, rows, x, w.data(), with_bias_ ? b.data() : nullptr, y);
  pack(w, b);
  packed_ = true;
  ConvPointers pointers{.x = x, .w = current_, .result = y};
  if (with_bias_) pointers.bias = bias_.bytes() > 0 ? bias_.get<float>() : b.data();
  const ConvPlan& plan = *of_rows.forward;
  run(plan, pointers);
  if (with_bias_ && !plan.adds_bias())
    add_bias(device_.work(), rows * product(geometry_.out()), geometry_.out_channels, b.data(), y);
}

void ConvPasses::backward_data(Index rows, const void* dy, ConstSpan w, void* dx) {
  const Plans& of_rows = plans(rows);
  if (of_rows.cube) return cube_conv_data(device_.work(), geometry_, rows, dy, w.data(), dx);
  if (!std::exchange(packed_, false)) pack(w, {});
  if (!of_rows.data.plan) throw FaultError(of_rows.data.reason);
  run(*of_rows.data.plan, {.w = current_, .dy = dy, .result = dx});
}

void ConvPasses::backward_weights(Index rows, const void* x, const void* dy, Span dw) {
  const Plans& of_rows = plans(rows);
  if (narrow_) {
    const Device::Lease workspace = device_.lease(Device::Scratch::workspace);
    return narrow_conv_weights(device_.work(), {geometry_, rows},
                               {.x = x, .dy = dy, .dw = dw.data(), .scratch = workspace.get()});
  }
  if (of_rows.cube) {
    const Device::Lease workspace = device_.lease(Device::Scratch::workspace);
    return cube_conv_weights(device_.work(), geometry_, rows, x, dy, dw.data(), workspace.get());
  }
  void* const result = as_is_ ? static_cast<void*>(dw.data()) : gradient_.get();
  run(*of_rows.weights, {.x = x, .dy = dy, .result = result});
  if (!as_is_) unpack_stored_weights(device_.work(), weight_shape(geometry_), gradient_.get(), dw.data());
}

class Conv final : public WeightedOp {
 public:
  Conv(Device& device, const ConvGeometry& geometry, Index max_rows)
      : device_(device), geometry_(geometry), passes_(device, geometry, geometry.bias) {
    if (geometry.bias)
      device.reserve(Device::Scratch::sums, channel_sums_bytes(device.storage(), sum_rows(max_rows), channels()));
  }

  void prepare(Index rows) override { passes_.prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    passes_.forward(x.shape.n, x.data.data(), w, b, y.data.data());
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    passes_.backward_data(dy.shape.n, dy.data.data(), w, dx.data.data());
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    passes_.backward_weights(x.shape.n, x.data.data(), dy.data.data(), dw);
    if (!geometry_.bias) return;
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    channel_sums(device_.work(), sum_rows(dy.shape.n), channels(), dy.data.data(), db.data(), sums.get());
  }

 private:
  Index channels() const { return geometry_.out_channels; }
  Index sum_rows(Index rows) const { return rows * product(geometry_.out()); }

  Device& device_;
  ConvGeometry geometry_;
  ConvPasses passes_;
};

/// The same passes with their roles exchanged. The bias comes in a pass of its own.
class ConvTranspose final : public WeightedOp {
 public:
  ConvTranspose(Device& device, const ConvGeometry& geometry, Index max_rows)
      : device_(device), geometry_(geometry), passes_(device, geometry, false) {
    device.reserve(Device::Scratch::sums, channel_sums_bytes(device.storage(), positions(max_rows), channels()));
  }

  void prepare(Index rows) override { passes_.prepare(rows); }
  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    passes_.weights_moved();  // since the pass that is called forward there
    passes_.backward_data(x.shape.n, x.data.data(), w, y.data.data());
    add_bias(device_.work(), positions(x.shape.n), channels(), b.data(), y.data.data());
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    passes_.forward(dy.shape.n, dy.data.data(), w, {}, dx.data.data());
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    passes_.backward_weights(x.shape.n, dy.data.data(), x.data.data(), dw);
    const Device::Lease sums = device_.lease(Device::Scratch::sums);
    channel_sums(device_.work(), positions(dy.shape.n), channels(), dy.data.data(), db.data(), sums.get());
  }

 private:
  Index channels() const { return geometry_.in_channels; }  // channels of y
  Index positions(Index rows) const { return rows * product(geometry_.in); }

  Device& device_;
  ConvGeometry geometry_;
  ConvPasses passes_;
};

class LocallyConnected final : public LocallyConnectedOp {
 public:
  LocallyConnected(Device& device, const ConvGeometry& geometry) : device_(device), geometry_(geometry) {}

  void forward(ConstTensor x, ConstSpan w, ConstSpan b, Tensor y) override {
    local_forward(device_.work(), geometry_, x.shape.n,
                  {x.data.data(), w.data(), b.empty() ? nullptr : b.data(), y.data.data()});
  }
  void backward_data(ConstTensor dy, ConstSpan w, Tensor dx) override {
    local_backward_data(device_.work(), geometry_, dy.shape.n, dy.data.data(), w.data(), dx.data.data());
  }
  void backward_weights(ConstTensor x, ConstTensor dy, Span dw, Span db) override {
    local_backward_weights(device_.work(), geometry_, x.shape.n,
                           {x.data.data(), dy.data.data(), false, dw.data(), db.empty() ? nullptr : db.data()});
  }
  void update(const StepContext&, const GradientProduct& first, const GradientProduct* second,
              const UntiedWeights& weights) override {
    local_update(device_.work(), geometry_, {device_.step(), first, second, weights});
  }
  void accumulate_weight_gradient(ConstTensor x, ConstTensor dy, Span dw) override {
    local_backward_weights(device_.work(), geometry_, x.shape.n,
                           {x.data.data(), dy.data.data(), true, dw.data(), nullptr});
  }

 private:
  Device& device_;
  ConvGeometry geometry_;
};

}  // namespace

std::unique_ptr<LocallyConnectedOp> CudaBackend::locally_connected(const ConvGeometry& geometry, Index) {
  return std::make_unique<LocallyConnected>(device_, geometry);
}

std::unique_ptr<WeightedOp> CudaBackend::conv(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<Conv>(device_, geometry, max_rows);
}

std::unique_ptr<WeightedOp> CudaBackend::conv_transpose(const ConvGeometry& geometry, Index max_rows) {
  return std::make_unique<ConvTranspose>(device_, geometry, max_rows);
}

namespace {

/// cuDNN convolves into scratch memory; one kernel then does bias, pooling and ReLU. Backward expands the pooled
/// gradient into the same scratch memory, so the full output never outlives a call.
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
    passes_.prepare(x.shape.n);  // may make room
    const Device::Lease full = device_.lease(Device::Scratch::output);
    passes_.forward(x.shape.n, x.data.data(), w, {}, full.get());
    bias_pool_forward(device_.work(), pool_, x.shape.n, {full.get(), b.data(), y.data.data(), winner.data()});
  }
  void backward(ConstTensor x, ConstTensor y, ConstTensor dy, std::span<const std::uint8_t> winner, ConstSpan w,
                Span dw, Span db, Tensor dx) override {
    const Device::Lease full = device_.lease(Device::Scratch::output), sums = device_.lease(Device::Scratch::sums);
    bias_pool_backward(device_.work(), pool_, x.shape.n,
                       {y.data.data(), dy.data.data(), winner.data(), full.get(), db.data(), sums.get()});
    passes_.backward_weights(x.shape.n, x.data.data(), full.get(), dw);
    if (!dx.data.empty()) passes_.backward_data(x.shape.n, full.get(), w, dx.data.data());
  }

 private:
  Device& device_;
  PoolGeometry pool_;
  ConvPasses passes_;
};

}  // namespace

// Null unless `pool` is a max pooling with stride = window.
std::unique_ptr<ConvPoolOp> CudaBackend::conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool,
                                                        Index max_rows) {
  if (pool.kind != PoolKind::max || pool.stride != pool.window) return nullptr;
  return std::make_unique<ConvPoolRelu>(device_, conv, pool, max_rows);
}

// The batch norm of a network's input and the convolution behind it, in one pass over the input each way.

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

std::unique_ptr<ConvNormOp> CudaBackend::conv_norm(const ConvNorm&, Index) { return nullptr; }

}  // namespace mrmf::cuda
