// Sums in fixed point: what MPI adds is integers, so here they are added by hand, rank after rank.
#include <doctest/doctest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "kernels/random.hpp"
#include "mpi/coded_and_fixed_point_sums.hpp"

using namespace mrmf;

namespace {

/// The sum over "ranks" of their values; whole[r] are those of rank r.
template <typename T>
std::vector<T> fixed_sum(const std::vector<std::vector<T>>& whole) {
  std::vector<FixedPoint<T>> ranks;
  for (const std::vector<T>& values : whole) ranks.push_back({{values}, static_cast<int>(whole.size())});
  for (std::size_t b = 0; b < ranks.front().largest().size(); ++b) {
    double most = 0;
    for (FixedPoint<T>& rank : ranks) most = std::max(most, rank.largest()[b]);
    for (FixedPoint<T>& rank : ranks) rank.largest()[b] = most;
  }
  const auto total = ranks.front().numbers();
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const auto numbers = ranks[r].numbers();
    for (std::size_t i = 0; i < total.size(); ++i) {
      std::int64_t sum = 0;
      CHECK_FALSE(__builtin_add_overflow(total[i], numbers[i], &sum));
      total[i] = sum;
    }
  }
  std::vector<T> result(whole.front().size());
  ranks.front().write(result);
  return result;
}

}  // namespace

TEST_CASE("fixed point: what cancels leaves what is small, in any order") {
  // In float, 1e8 + 1 is 1e8: adding in the order written would give 0 or 1, not 3.
  std::vector<std::vector<float>> values{{1e8F}, {1}, {1}, {-1e8F}, {1}};
  for (int turn = 0; turn < 5; ++turn) {
    CHECK(fixed_sum(values) == std::vector<float>{3});
    std::ranges::rotate(values, values.begin() + 1);
  }
}

TEST_CASE("fixed point: floats whose sizes differ less than the unit allows are added exactly and rounded once") {
  constexpr std::size_t count = 1000;
  std::vector<std::vector<float>> values(7, std::vector<float>(count));
  Rng rng(5);
  for (auto& rank : values)
    for (float& value : rank) value = static_cast<float>(rng.normal());
  const std::vector<float> sums = fixed_sum(values);
  for (std::size_t i = 0; i < count; ++i) {
    // Seven floats above 1e-4 or so have their last bits within 64 bits of each other: long double is exact.
    long double exact = 0;
    for (const auto& rank : values) exact += rank[i];
    CHECK(sums[i] == doctest::Approx(static_cast<double>(exact)).epsilon(FLT_EPSILON));
    std::ranges::reverse(values);
  }
  CHECK(fixed_sum(values) == sums);
}

TEST_CASE("fixed point: one rank's values come back, the largest and the smallest too") {
  const std::vector<double> doubles{0, 1, -1.0 / 3, DBL_MAX, -DBL_MAX, DBL_MIN, 1e-200};
  const std::vector<double> back = fixed_sum<double>({doubles});
  for (std::size_t i = 0; i < doubles.size(); ++i)
    CHECK(std::abs(back[i] - doubles[i]) <= std::ldexp(1.0, -1001));  // half the smallest unit
  const std::vector<float> floats{FLT_TRUE_MIN}, largest{FLT_MAX, -FLT_MAX, 1};
  CHECK(fixed_sum<float>({floats}) == floats);
  CHECK(fixed_sum<float>({largest})[0] == FLT_MAX);
}

TEST_CASE("fixed point: the sum of as many of the largest as there are ranks fits") {
  for (const int ranks : {1, 2, 3, 5, 8, 100}) {
    const float most = std::nextafter(2.0F, 0.0F);
    const std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks), {most, -most});
    const std::vector<float> sum = fixed_sum(values);
    CHECK(sum[0] == static_cast<float>(static_cast<double>(ranks) * most));
    CHECK(sum[1] == -sum[0]);
  }
}

TEST_CASE("fixed point: a value that is not finite makes its block NaN, and no other") {
  constexpr std::size_t block = FixedPoint<float>::kBlock;
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<std::vector<float>> values(3, std::vector<float>(3 * block, 1));
    values[1][block + 3] = bad;
    const std::vector<float> sum = fixed_sum(values);
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (i / block == 1)
        CHECK(std::isnan(sum[i]));
      else
        CHECK(sum[i] == 3);
    }
  }
}
