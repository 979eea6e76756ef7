#include "kernels/cuda/conv_passes.hpp"

#include "kernels/cuda/autotune.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace mrmf::cuda {
namespace {

ConvGeometry padded(const Storage& storage, ConvGeometry geometry) {
  geometry.in_channels = storage.channels(geometry.in_channels);
  geometry.out_channels = storage.channels(geometry.out_channels);
  return geometry;
}

WeightShape weight_shape(const ConvGeometry& geometry) {
  return {geometry.out_channels, product(geometry.kernel), geometry.in_channels};
}

}  // namespace

ConvPasses::ConvPasses(Device& device, const ConvGeometry& geometry, bool with_bias)
    : device_(device),
      geometry_(geometry),
      padded_(padded(device.storage(), geometry)),
      with_bias_(with_bias),
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
    ConvProblem problem{
        ConvPass::forward, padded_, rows, device_.settings().precision, with_bias_, device_.settings().deterministic};
    entry->second.forward = device_.plans().choose(problem);
    problem.bias = false;
    problem.pass = ConvPass::backward_data;
    // A first layer never asks for dx, and needs no plan for it.
    try {
      entry->second.data = device_.plans().choose(problem);
    } catch (const FaultError& error) {
      if (device_.is_lost()) throw;
      entry->second.no_data = error.what();
    }
    problem.pass = ConvPass::backward_weights;
    entry->second.weights = device_.plans().choose(problem);
  }
  return entry->second;
}

void ConvPasses::run(const ConvPlan& plan, const ConvPointers& pointers) {
  plan.run(device_.cudnn(), pointers, device_.scratch(Device::Scratch::workspace));
}

void ConvPasses::pack(ConstSpan w, ConstSpan b) {
  current_ = w.data();
  if (!as_is_) {
    pack_weights(device_.work(), weight_shape(geometry_), w.data(), weights_.get());
    current_ = weights_.get();
  }
  if (bias_.bytes() > 0)
    MRMF_CUDA(cudaMemcpyAsync(bias_.get(), b.data(), b.size_bytes(), cudaMemcpyDeviceToDevice, device_.stream()));
}

void ConvPasses::forward(Index rows, const void* x, ConstSpan w, ConstSpan b, void* y) {
  pack(w, b);
  ConvPointers pointers{.x = x, .w = current_, .result = y};
  if (with_bias_) pointers.bias = bias_.bytes() > 0 ? bias_.get<float>() : b.data();
  run(*plans(rows).forward, pointers);
}

void ConvPasses::backward_data(Index rows, const void* dy, void* dx) {
  const Plans& of_rows = plans(rows);
  if (!of_rows.data) throw FaultError(of_rows.no_data);
  run(*of_rows.data, {.w = current_, .dy = dy, .result = dx});
}

void ConvPasses::backward_weights(Index rows, const void* x, const void* dy, Span dw) {
  void* const result = as_is_ ? static_cast<void*>(dw.data()) : gradient_.get();
  run(*plans(rows).weights, {.x = x, .dy = dy, .result = result});
  if (!as_is_) unpack_stored_weights(device_.work(), weight_shape(geometry_), gradient_.get(), dw.data());
}

}  // namespace mrmf::cuda
