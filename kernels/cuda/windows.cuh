// Where the windows of a pooling lie. A row is a position of a sample, last axis fastest, samples after one another:
// row numbers of input and output are what the kernels count in.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/operations.hpp"

namespace mrmf::cuda {

inline constexpr std::uint32_t outside = ~0U;  ///< the tap of a position that no window covers

/// Side 0: any windows. Where they are cubes of a side known to the compiler, its loops are unrolled and several loads
/// are in flight; side 1 says that there are no windows.
template <std::uint32_t Side = 0>
class Windows {
 public:
  static constexpr std::uint32_t side = Side;

  explicit Windows(const PoolGeometry& g, Index samples) {
    const Extent sizes = g.out();
    count32(samples * product(g.in));  // input rows are counted in 32 bits
    for (int a = 0; a < 3; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      in_[a] = count32(g.in[axis]), out_[a] = count32(sizes[axis]);
      window_[a] = count32(g.window[axis]), stride_[a] = count32(g.stride[axis]);
      by_in_[a] = Divider(g.in[axis]), by_out_[a] = Divider(sizes[axis]), by_stride_[a] = Divider(g.stride[axis]);
    }
  }

  std::uint32_t taps() const { return window_[0] * window_[1] * window_[2]; }

  /// use(tap, input row) for every tap of an output row's window.
  template <class Use>
  MRMF_HD void for_each_tap(std::uint32_t out_row, Use use) const {
    if constexpr (Side == 1) return use(0U, out_row);
    const Coordinates at = coordinates(out_row, by_out_);
    const std::uint32_t first = input_row(at);
    std::uint32_t tap = 0;
    for (std::uint32_t i = 0; i < window(0); ++i)
      for (std::uint32_t j = 0; j < window(1); ++j)
        for (std::uint32_t k = 0; k < window(2); ++k) use(tap++, first + (i * in_[1] + j) * in_[2] + k);
  }

  /// The input row of one tap of an output row's window.
  MRMF_HD std::uint32_t tap_row(std::uint32_t out_row, std::uint32_t tap) const {
    const std::uint32_t k = tap % window(2), j = tap / window(2) % window(1), i = tap / window(2) / window(1);
    return input_row(coordinates(out_row, by_out_)) + (i * in_[1] + j) * in_[2] + k;
  }

  /// Where window = stride: use(tap, input row) for the window's taps and, of the last window along an axis, for the
  /// positions behind it, too (`outside`), so that all output rows together meet every input row once.
  template <class Use>
  MRMF_HD void for_each_owned(std::uint32_t out_row, Use use) const {
    if constexpr (Side == 1) return use(0U, out_row);
    const Coordinates at = coordinates(out_row, by_out_);
    const std::uint32_t first = input_row(at);
    std::uint32_t end[3];
    bool whole = true;
    for (int a = 0; a < 3; ++a) {
      end[a] = at.axis[a] + 1 == out_[a] ? in_[a] - at.axis[a] * stride_[a] : window(a);
      whole &= end[a] == window(a);
    }
    if (Side > 1 && whole) return for_each_tap(out_row, use);
    for (std::uint32_t i = 0; i < end[0]; ++i)
      for (std::uint32_t j = 0; j < end[1]; ++j)
        for (std::uint32_t k = 0; k < end[2]; ++k) {
          const bool inside = i < window(0) && j < window(1) && k < window(2);
          use(inside ? (i * window(1) + j) * window(2) + k : outside, first + (i * in_[1] + j) * in_[2] + k);
        }
  }

  /// use(tap, output row) for every window that covers an input row.
  template <class Use>
  MRMF_HD void for_each_cover(std::uint32_t in_row, Use use) const {
    const Coordinates at = coordinates(in_row, by_in_);
    std::uint32_t first[3], end[3];
    for (int a = 0; a < 3; ++a) {
      first[a] = at.axis[a] < window_[a] ? 0 : by_stride_[a].quotient(at.axis[a] - window_[a]) + 1;
      const std::uint32_t last = by_stride_[a].quotient(at.axis[a]) + 1;
      end[a] = last < out_[a] ? last : out_[a];
    }
    for (std::uint32_t i = first[0]; i < end[0]; ++i)
      for (std::uint32_t j = first[1]; j < end[1]; ++j)
        for (std::uint32_t k = first[2]; k < end[2]; ++k) {
          const std::uint32_t ti = at.axis[0] - i * stride_[0], tj = at.axis[1] - j * stride_[1],
                              tk = at.axis[2] - k * stride_[2];
          use((ti * window_[1] + tj) * window_[2] + tk, ((at.sample * out_[0] + i) * out_[1] + j) * out_[2] + k);
        }
  }

 private:
  MRMF_HD std::uint32_t window(int axis) const { return Side > 0 ? Side : window_[axis]; }

  struct Coordinates {
    std::uint32_t sample, axis[3];
  };

  MRMF_HD static Coordinates coordinates(std::uint32_t row, const Divider (&by)[3]) {
    Coordinates at{};
    at.axis[2] = by[2].take(row);
    at.axis[1] = by[1].take(row);
    at.axis[0] = by[0].take(row);
    at.sample = row;
    return at;
  }
  /// The first input row of the window at these coordinates of the output.
  MRMF_HD std::uint32_t input_row(const Coordinates& at) const {
    return ((at.sample * in_[0] + at.axis[0] * stride_[0]) * in_[1] + at.axis[1] * stride_[1]) * in_[2] +
           at.axis[2] * stride_[2];
  }

  std::uint32_t in_[3], out_[3], window_[3], stride_[3];
  Divider by_in_[3], by_out_[3], by_stride_[3];
};

/// Calls use(windows) with the side that fits; windows = stride.
template <class Use>
void with_windows(const PoolGeometry& g, Index samples, Use use) {
  const auto cube = [&](Index side) { return g.window == Extent{side, side, side} && g.stride == g.window; };
  if (cube(1))
    use(Windows<1>(g, samples));
  else if (cube(2))
    use(Windows<2>(g, samples));
  else
    use(Windows<>(g, samples));
}

}  // namespace mrmf::cuda
