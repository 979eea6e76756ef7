// The parts of the reference backend, private to this folder. Each is a naive loop that sums in double: it is meant
// to be read beside the formula it implements, and is the oracle that every other backend is tested against.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "kernels/backend.hpp"

namespace mrmf::reference {

std::unique_ptr<WeightedOp> make_conv(const ConvGeometry& geometry, Index max_rows);
std::unique_ptr<PoolOp> make_pool(const PoolGeometry& geometry, Index max_rows);
std::unique_ptr<NormOp> make_norm(const NormSettings& settings, Index max_rows);
std::unique_ptr<WeightedOp> make_dense(Index in, Index out, Index max_rows);
/// Null unless `pool` is a max pooling with stride = window.
std::unique_ptr<ConvPoolOp> make_conv_pool_relu(const ConvGeometry& conv, const PoolGeometry& pool, Index max_rows);
std::unique_ptr<NormOp> make_norm_relu_pool(const NormReluPool& settings, Index max_rows);

void activate(ActivationKind kind, float slope, ConstSpan x, Span y);
void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx);
void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y);
void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum);
void sgd(const SgdStep& step, Span w, ConstSpan dw, Span velocity);
void adam(const AdamStep& step, Span w, ConstSpan dw, Span m, Span v);

inline void check_rows(const Shape& shape, Index max_rows) {
  MRMF_CHECK(shape.n <= max_rows,
             "the operation was built for " + std::to_string(max_rows) + " rows and got " + std::to_string(shape.n));
}

/// Position of (i, j, k) in a volume of the given size.
constexpr Index flat(const Extent& size, const Extent& at) { return (at[0] * size[1] + at[1]) * size[2] + at[2]; }

/// Calls use(position) for every position of the volume, last axis fastest.
template <class Use>
void for_each_position(const Extent& size, Use use) {
  for (Index i = 0; i < size[0]; ++i)
    for (Index j = 0; j < size[1]; ++j)
      for (Index k = 0; k < size[2]; ++k) use(Extent{i, j, k});
}

/// A window that slides over a volume: what convolution and pooling have in common.
struct Window {
  Extent in, size, stride, pad_before;
};

/// Calls use(tap, position) for every tap of the window at output position `out` that falls inside the volume:
/// `tap` counts inside the window, `position` in the volume, both last axis fastest.
template <class Use>
void for_each_tap(const Window& window, const Extent& out, Use use) {
  Extent origin{}, first{}, last{};
  for (std::size_t a = 0; a < 3; ++a) {
    origin[a] = out[a] * window.stride[a] - window.pad_before[a];
    first[a] = std::max<Index>(0, -origin[a]);
    last[a] = std::min(window.size[a], window.in[a] - origin[a]);
  }
  for (Index i = first[0]; i < last[0]; ++i)
    for (Index j = first[1]; j < last[1]; ++j)
      for (Index k = first[2]; k < last[2]; ++k)
        use(flat(window.size, {i, j, k}), flat(window.in, {origin[0] + i, origin[1] + j, origin[2] + k}));
}

}  // namespace mrmf::reference
