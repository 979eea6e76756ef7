// What the oneDNN backend is put together from (backend.cpp): memory, the makers of its operations, plain functions.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "kernels/backend.hpp"

namespace mrmf::onednn {

class Context;

/// Zeroed, 64-byte aligned floats.
inline Arena make_arena(Index count) {
  const auto floats = static_cast<std::size_t>(count);
  const std::size_t bytes = (floats * sizeof(float) + 63) / 64 * 64;
  auto* data = static_cast<float*>(std::aligned_alloc(64, std::max<std::size_t>(bytes, 64)));
  if (data == nullptr) throw std::bad_alloc();
    // The thread that first writes a page decides which memory it lies in: share the pages out as the loops do.
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < floats; ++i) data[i] = 0.0F;
  return {data, floats, +[](float* p) { std::free(p); }};
}

std::unique_ptr<WeightedOp> make_conv(const Context& context, const ConvGeometry& geometry, Index max_rows);
std::unique_ptr<WeightedOp> make_dense(const Context& context, Index in, Index out, Index max_rows);
std::unique_ptr<PoolOp> make_pool(const PoolGeometry& geometry);
std::unique_ptr<NormOp> make_norm(const NormSettings& settings);
/// Null for windows over more than 16 lines.
std::unique_ptr<NormOp> make_norm_relu_pool(const NormReluPool& settings);
/// Null where the direct kernels do not serve the convolution.
std::unique_ptr<NormConvOp> make_norm_conv(const NormSettings& settings, const ConvGeometry& geometry);
/// Null for geometries other than 1-D, stride 1, no padding, max pooling with window = stride.
std::unique_ptr<ConvPoolOp> make_fused_conv_pool(const ConvGeometry& conv, const PoolGeometry& pool);

// The plain functions of Backend (elementwise.cpp).
void swap(Span a, Span b);
void fill(Span x, float value);
void activate(ActivationKind kind, float slope, ConstSpan x, Span y);
void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx);
void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y);
void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum);
void sgd(const SgdStep& step, Span w, ConstSpan dw, Span velocity);
void adam(const AdamStep& step, Span w, ConstSpan dw, Span m, Span v);

}  // namespace mrmf::onednn
