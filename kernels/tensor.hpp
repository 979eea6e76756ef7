// Shapes and views of tensors. No libraries, no device code: every folder may include this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/errors.hpp"

// Marks functions that device code calls, too: just the words that nvcc needs and other compilers do not know.
#ifdef __CUDACC__
#define MRMF_HD __host__ __device__
#else
#define MRMF_HD
#endif

namespace mrmf {

using Index = std::int64_t;
using Span = std::span<float>;             ///< writable view; owned by an Arena of the backend
using ConstSpan = std::span<const float>;  ///< read-only view

/// Sizes per spatial axis, slowest first. 1-D data uses {1, 1, W}, 2-D data {1, H, W}.
using Extent = std::array<Index, 3>;

constexpr Index product(const Extent& e) { return e[0] * e[1] * e[2]; }

/// A box of positions: so many along each axis, from `first` on.
struct Box {
  Extent first{0, 0, 0}, count{1, 1, 1};
  Index end(std::size_t axis) const { return first[axis] + count[axis]; }
  bool empty() const { return product(count) == 0; }
  bool operator==(const Box&) const = default;
};

/// What two boxes share; an axis without common positions has the count 0.
constexpr Box intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Index first = a.first[axis] > b.first[axis] ? a.first[axis] : b.first[axis];
    const Index end = a.end(axis) < b.end(axis) ? a.end(axis) : b.end(axis);
    both.first[axis] = first;
    both.count[axis] = end > first ? end - first : 0;
  }
  return both;
}

constexpr bool contains(const Box& box, const Box& part) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    if (part.first[axis] < box.first[axis] || part.end(axis) > box.end(axis)) return false;
  return true;
}

/// A copy of a box of positions from one tensor to another.
struct BoxCopy {
  Extent from{0, 0, 0}, to{0, 0, 0};  ///< where the box begins in each
  Extent count{1, 1, 1};
  bool add = false;  ///< onto what is there
};

/// Shape of a channels-last tensor: (n, spatial[0], spatial[1], spatial[2], channels).
/// A flat feature vector has spatial {1, 1, 1} and axes 0.
struct Shape {
  Index n = 0;
  Extent spatial{1, 1, 1};
  Index channels = 1;
  int axes = 0;  ///< spatial axes in use (0..3); the unused ones come first and are 1

  Index per_sample() const { return product(spatial) * channels; }
  Index count() const { return n * per_sample(); }
  /// The same shape with so many rows.
  Shape with_rows(Index rows) const {
    Shape s = *this;
    s.n = rows;
    return s;
  }
  bool operator==(const Shape&) const = default;
};

/// The per-sample shape as users read it: "1597x30", "128x128x128x4", "4320".
inline std::string to_string(const Shape& shape) {
  std::string text;
  for (int axis = 3 - shape.axes; axis < 3; ++axis)
    text += std::to_string(shape.spatial[static_cast<std::size_t>(axis)]) + "x";
  return text + std::to_string(shape.channels);
}

/// A shape over borrowed memory; data.size() == shape.count(). Or a slice: some of the channels of a wider tensor,
/// whose positions lie `pitch` floats apart; data goes from the first float to the last.
struct Tensor {
  Shape shape;
  Span data;
  Index pitch = 0;  ///< 0: the channels, so no slice

  Index stride() const { return pitch == 0 ? shape.channels : pitch; }  ///< from a position to the next
};
struct ConstTensor {
  Shape shape;
  ConstSpan data;
  Index pitch = 0;
  ConstTensor() = default;
  ConstTensor(const Shape& s, ConstSpan d, Index p = 0) : shape(s), data(d), pitch(p) {}
  ConstTensor(const Tensor& t) : shape(t.shape), data(t.data), pitch(t.pitch) {}  // NOLINT(google-explicit-constructor)

  Index stride() const { return pitch == 0 ? shape.channels : pitch; }
};

}  // namespace mrmf
