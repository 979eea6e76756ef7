// Windows of local contrast normalisation, for every processor: their weights, and weighted sums of one number per
// position. A window has less to sum at the sample's border; what is left of its weights is then brought to 1.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/operations.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// Positions [first, end) along each axis, of those that x has.
struct PositionBox {
  std::int32_t first[3], end[3];

  explicit PositionBox(const Box& box) : first{}, end{} {
    for (std::size_t a = 0; a < 3; ++a)
      first[a] = static_cast<std::int32_t>(box.first[a]), end[a] = static_cast<std::int32_t>(box.end(a));
  }
  MRMF_HD std::int32_t count() const { return (end[0] - first[0]) * (end[1] - first[1]) * (end[2] - first[2]); }
};

/// A position among those of x.
struct Position {
  std::int32_t axis[3];
};

class ContrastWindow {
 public:
  explicit ContrastWindow(const ContrastGeometry& g)
      : all(Box{.count = g.in}), middle(g.middle()), out(g.out), weight_{}, half_{}, in_{}, first_{}, sample_{} {
    for (std::size_t a = 0; a < 3; ++a) {
      half_[a] = static_cast<std::int32_t>(g.window[a] / 2);
      in_[a] = static_cast<std::int32_t>(g.in[a]);
      first_[a] = static_cast<std::int32_t>(g.first[a]), sample_[a] = static_cast<std::int32_t>(g.sample[a]);
      double sum = 0;
      for (std::int32_t t = 0; t <= half_[a]; ++t) sum += (t == 0 ? 1 : 2) * g.weight(a, t);
      for (std::int32_t t = 0; t <= half_[a]; ++t) weight_[a][t] = static_cast<float>(g.weight(a, t) / sum);
    }
  }

  /// Position number i of a box, last axis fastest.
  MRMF_HD static Position position(const PositionBox& box, std::int32_t i) {
    Position p{};
    for (int a = 2; a >= 0; --a) {
      const std::int32_t sizes = box.end[a] - box.first[a];
      p.axis[a] = box.first[a] + i % sizes;
      i /= sizes;
    }
    return p;
  }
  /// Its number among those of x.
  MRMF_HD std::int32_t number(const Position& p) const { return (p.axis[0] * in_[1] + p.axis[1]) * in_[2] + p.axis[2]; }
  /// The number of a position of y among those of y.
  MRMF_HD std::int32_t number_in_out(const Position& p) const {
    std::int32_t number = 0;
    for (int a = 0; a < 3; ++a) number = number * (out.end[a] - out.first[a]) + p.axis[a] - out.first[a];
    return number;
  }
  MRMF_HD static bool has(const PositionBox& box, const Position& p) {
    for (int a = 0; a < 3; ++a)
      if (p.axis[a] < box.first[a] || p.axis[a] >= box.end[a]) return false;
    return true;
  }

  /// The sum of `field`, a number for each position of x, over the window around p: of the positions in `box` alone.
  MRMF_HD float sum(const float* field, const PositionBox& box, const Position& p) const {
    std::int32_t begin[3], end[3];
    for (int a = 0; a < 3; ++a) {
      begin[a] = p.axis[a] - half_[a] > box.first[a] ? p.axis[a] - half_[a] : box.first[a];
      end[a] = p.axis[a] + half_[a] + 1 < box.end[a] ? p.axis[a] + half_[a] + 1 : box.end[a];
    }
    float total = 0;
    for (std::int32_t i = begin[0]; i < end[0]; ++i)
      for (std::int32_t j = begin[1]; j < end[1]; ++j) {
        const float* const line = field + (static_cast<std::size_t>(i) * in_[1] + j) * in_[2];
        float part = 0;
        for (std::int32_t k = begin[2]; k < end[2]; ++k) part += at(2, k - p.axis[2]) * line[k];
        total += at(0, i - p.axis[0]) * at(1, j - p.axis[1]) * part;
      }
    return total;
  }
  /// What brings the weights of the window around p that are inside of the sample to the sum 1.
  MRMF_HD float share(const Position& p) const {
    float inside = 1;
    for (int a = 0; a < 3; ++a) {
      const std::int32_t here = first_[a] + p.axis[a];
      if (here >= half_[a] && here + half_[a] < sample_[a]) continue;
      float sum = 0;
      for (std::int32_t t = -half_[a]; t <= half_[a]; ++t)
        if (here + t >= 0 && here + t < sample_[a]) sum += at(a, t);
      inside *= sum;
    }
    return 1 / inside;
  }

  PositionBox all, middle, out;  ///< positions of x, those whose means are needed, and those of y

 private:
  MRMF_HD float at(int axis, std::int32_t distance) const { return weight_[axis][distance < 0 ? -distance : distance]; }

  float weight_[3][kMostContrastWindow / 2 + 1];  // by distance
  std::int32_t half_[3], in_[3], first_[3], sample_[3];
};

/// What is kept for every position of x, and scratch: arrays of as many floats as there are positions in all rows.
struct ContrastFields {
  float *mean, *deviation;        ///< from forward to backward; of the window's values, and of what is left of them
  float *first, *second, *third;  ///< scratch

  ContrastFields(Span kept, Index count)
      : mean(kept.data()),
        deviation(mean + count),
        first(deviation + count),
        second(first + count),
        third(second + count) {
    MRMF_CHECK(std::ssize(kept) >= kContrastFields * count, "no room for what local contrast normalisation keeps");
  }
};

}  // namespace mrmf
