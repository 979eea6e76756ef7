#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/simulators/volumes/simulate.hpp"

using namespace mrmf;
using namespace mrmf::volumes;

namespace {

// The norm of the matrix times any direction, at most.
double longest(const AffineMap& map) {
  double squares = 0;
  for (std::size_t i = 0; i < 9; ++i) squares += map.parameters[i] * map.parameters[i];
  return std::sqrt(squares);
}

std::set<int> cells(const std::vector<volumes::Point>& points, int grid) {
  std::set<int> found;
  for (const volumes::Point& p : points)
    found.insert((static_cast<int>(p[0] * grid) * grid + static_cast<int>(p[1] * grid)) * grid +
                 static_cast<int>(p[2] * grid));
  return found;
}

// Cells that one of the two has, relative to those of both.
double difference(const Fractal& a, const Fractal& b) {
  const std::set<int> first = cells(a.points(7, 20000), 12), second = cells(b.points(7, 20000), 12);
  std::size_t both = 0;
  for (const int cell : first) both += second.count(cell);
  return 1 - static_cast<double>(both) / static_cast<double>(first.size() + second.size() - both);
}

}  // namespace

TEST_CASE("fractals: a map is its matrix and shift, and contracts") {
  AffineMap map{{1, 2, 0, 0, 3, 0, 0, 0, 2, 5, 6, 7}};
  CHECK(map({1, 1, 1}) == volumes::Point{8, 9, 9});
  CHECK(map.volume() == doctest::Approx(6));
  map.contract();
  CHECK(longest(map) == doctest::Approx(0.9));
  CHECK(map.parameters[9] == 5);
  AffineMap small{{0.1, 0, 0, 0, 0.2, 0, 0, 0, -0.3, 1, 1, 1}};
  const AffineMap same = small;
  small.contract();
  CHECK(small.parameters == same.parameters);
  CHECK(small.volume() == doctest::Approx(0.006));
}

TEST_CASE("fractals: every map of a class and of its instances contracts") {
  for (int number = 0; number < 4; ++number)
    for (const int instance : {0, 1, 6, 100, kInstances - 1}) {
      const Fractal fractal = Fractal::of_class(1, number).instance(instance);
      for (const AffineMap& map : fractal.maps()) CHECK(longest(map) <= 0.9 + 1e-12);
    }
}

TEST_CASE("fractals: points fill one direction of the unit cube, and more of it than a plane") {
  for (int number = 0; number < 6; ++number) {
    const std::vector<volumes::Point> points = Fractal::of_class(1, number).points(3, 30000);
    CHECK(points.size() == 30000);
    volumes::Point most{};
    for (const volumes::Point& p : points)
      for (std::size_t axis = 0; axis < 3; ++axis) {
        REQUIRE(p[axis] >= 0);
        REQUIRE(p[axis] < 1);
        most[axis] = std::max(most[axis], p[axis]);
      }
    CHECK(*std::ranges::max_element(most) > 0.999);
    CHECK(cells(points, 16).size() > 256);
  }
}

TEST_CASE("fractals: classes differ from each other, and less from their instances") {
  const Fractal first = Fractal::of_class(1, 0), second = Fractal::of_class(1, 1);
  CHECK(difference(first, Fractal::of_class(1, 0)) == 0);
  CHECK(difference(first, first.instance(0)) == 0);
  const double classes = difference(first, second);
  CHECK(classes > 0.3);
  double instances = 0;
  for (int number = 1; number < kInstances; ++number) {
    const double one = difference(first, first.instance(number));
    CHECK(one > 0);
    instances += one / (kInstances - 1);
  }
  CHECK(instances < classes);
}
