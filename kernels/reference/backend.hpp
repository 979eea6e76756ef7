// The reference backend, private to this folder. Each operation is a naive loop that sums in double: it is meant to be
// read beside the formula it implements, and is the oracle that every other backend is tested against.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "kernels/cpu/arena.hpp"

namespace mrmf::reference {

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference: naive loops, double accumulation, one thread"; }
  Arena allocate(Index count) override;
  Arena allocate_shared(Index count) override { return cpu::allocate_shared(*this, count); }
  MRMF_BACKEND_OPERATIONS(MRMF_OVERRIDE_OPERATION)
};

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
  Extent dilation{1, 1, 1};
};

/// Calls use(tap, position) for every tap of the window at output position `out` that falls inside the volume:
/// `tap` counts inside the window, `position` in the volume, both last axis fastest.
template <class Use>
void for_each_tap(const Window& window, const Extent& out, Use use) {
  Extent origin{}, first{}, last{};
  for (std::size_t a = 0; a < 3; ++a) {
    origin[a] = out[a] * window.stride[a] - window.pad_before[a];
    const Index step = window.dilation[a];  // 0 <= origin + tap * step < in
    first[a] = std::max<Index>(0, (step - 1 - origin[a]) / step);
    last[a] = std::min(window.size[a], (window.in[a] - origin[a] + step - 1) / step);
  }
  const auto at = [&](std::size_t a, Index tap) { return origin[a] + tap * window.dilation[a]; };
  for (Index i = first[0]; i < last[0]; ++i)
    for (Index j = first[1]; j < last[1]; ++j)
      for (Index k = first[2]; k < last[2]; ++k)
        use(flat(window.size, {i, j, k}), flat(window.in, {at(0, i), at(1, j), at(2, k)}));
}

}  // namespace mrmf::reference
