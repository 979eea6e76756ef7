#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/random.hpp"

namespace mrmf::test {

TEST_CASE("random: philox 4x32-10 gives the published vectors (Random123, kat_vectors)") {
  CHECK(philox(0, {0, 0, 0, 0}) == Random4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        Random4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // The key's first word is the low half.
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        Random4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random: mix depends on every word and on their order") {
  std::set<std::uint64_t> keys;
  for (std::uint64_t a = 0; a < 10; ++a)
    for (std::uint64_t b = 0; b < 10; ++b)
      for (std::uint64_t c = 0; c < 10; ++c) keys.insert(mix(a, b, c));
  CHECK(keys.size() == 1000);
}

TEST_CASE("random: uniform numbers fill [0, 1) evenly") {
  Rng rng(42);
  constexpr int count = 100000;
  double low = 1, high = 0, sum = 0, squares = 0;
  std::vector<int> bins(10);
  for (int i = 0; i < count; ++i) {
    const double u = rng.uniform();
    low = std::min(low, u);
    high = std::max(high, u);
    sum += u;
    squares += u * u;
    ++bins[static_cast<std::size_t>(u * 10)];
  }
  CHECK(low >= 0);
  CHECK(low < 1e-3);
  CHECK(high < 1);
  CHECK(high > 1 - 1e-3);
  // Five standard deviations: mean sqrt(1/12/n), mean square sqrt(4/45/n), bin sqrt(0.09 n).
  CHECK(std::abs(sum / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(squares / count - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / count));
  for (const int bin : bins) CHECK(std::abs(bin - count / 10) < 5 * std::sqrt(0.09 * count));
}

TEST_CASE("random: uniform between bounds, below a bound, normal") {
  Rng rng(43);
  constexpr int count = 60000;
  std::vector<int> hits(6);
  double mean = 0, square = 0, fourth = 0;
  for (int i = 0; i < count; ++i) {
    const double u = rng.uniform(-3, 5);
    CHECK_UNARY(u >= -3 && u < 5);
    const std::uint64_t k = rng.below(6);
    REQUIRE(k < 6);
    ++hits[k];
    const double z = rng.normal();
    mean += z / count;
    square += z * z / count;
    fourth += z * z * z * z / count;
  }
  // Five standard deviations: sqrt(n/6 * 5/6); sqrt(1/n), sqrt(2/n), sqrt(96/n).
  for (const int hit : hits) CHECK(std::abs(hit - count / 6) < 5 * std::sqrt(count / 6.0 * 5 / 6));
  CHECK(std::abs(mean) < 5 * std::sqrt(1.0 / count));
  CHECK(std::abs(square - 1) < 5 * std::sqrt(2.0 / count));
  CHECK(std::abs(fourth - 3) < 5 * std::sqrt(96.0 / count));
}

TEST_CASE("random: a copied stream continues as the original does; another key is another stream") {
  Rng rng(7), other(8);
  rng.next();
  Rng copy = rng;
  for (int i = 0; i < 9; ++i) CHECK(rng.next() == copy.next());
  int equal = 0;
  for (int i = 0; i < 100; ++i) equal += rng.next() == other.next() ? 1 : 0;
  CHECK(equal == 0);
}

}  // namespace mrmf::test
