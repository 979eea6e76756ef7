// How far apart values are that several ranks compute and one computes.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace mrmf::test {

/// 1e9 where a value is not finite.
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(double{a[i]} - b[i]);
    most = std::isfinite(apart) ? std::max(most, apart) : 1e9;
  }
  return most;
}

/// Relative to the largest of what is wanted; 1e9 where a value is not finite.
inline double relative_difference(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() == wanted.size());
  double most = 1e-3, apart = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(double{wanted[i]}));
    apart = std::max(apart, std::abs(double{got[i]} - wanted[i]));
    if (!std::isfinite(got[i])) return 1e9;
  }
  return apart / most;
}

}  // namespace mrmf::test
