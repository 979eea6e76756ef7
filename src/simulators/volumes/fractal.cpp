#include "src/simulators/volumes/fractal.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "kernels/check.hpp"

namespace mrmf::volumes {
namespace {

constexpr double kMostNorm = 0.9;  // most norm of a map's matrix: the square root of its squares
constexpr double kLeastFactor = 0.4, kMostFactor = 1.6;
constexpr int kLeastMaps = 2, kMostMaps = 8;
constexpr int kForgotten = 20;  // points until the start no longer shows
constexpr int kTries = 1000;

// Shares of a grid's cells that a class has points in: more than a plane, less than all.
constexpr int kGrid = 16;
constexpr std::size_t kGridPoints = 8192, kLeastCells = 400;

std::size_t cells_with_points(const std::vector<Point>& points) {
  std::set<int> cells;
  for (const Point& p : points) {
    int cell = 0;
    for (const double x : p) cell = cell * kGrid + static_cast<int>(x * kGrid);
    cells.insert(cell);
  }
  return cells.size();
}

}  // namespace

Point AffineMap::operator()(const Point& x) const {
  Point y{};
  for (std::size_t row = 0; row < 3; ++row) {
    y[row] = parameters[9 + row];
    for (std::size_t column = 0; column < 3; ++column) y[row] += parameters[3 * row + column] * x[column];
  }
  return y;
}

double AffineMap::volume() const {
  const auto& a = parameters;
  return std::abs(a[0] * (a[4] * a[8] - a[5] * a[7]) - a[1] * (a[3] * a[8] - a[5] * a[6]) +
                  a[2] * (a[3] * a[7] - a[4] * a[6]));
}

void AffineMap::contract() {
  double squares = 0;
  for (std::size_t i = 0; i < 9; ++i) squares += parameters[i] * parameters[i];
  const double norm = std::sqrt(squares);
  if (norm <= kMostNorm) return;
  for (std::size_t i = 0; i < 9; ++i) parameters[i] *= kMostNorm / norm;
}

Fractal::Fractal(std::vector<AffineMap> maps) : maps_(std::move(maps)) {
  double sum = 0;
  for (AffineMap& map : maps_) {
    map.contract();
    chances_.push_back(sum += map.volume() + 1e-3);  // a flat map is drawn now and then
  }
}

Fractal Fractal::of_class(std::uint64_t seed, int number) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Rng rng(mix(seed, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(attempt)));
    std::vector<AffineMap> maps(kLeastMaps + rng.below(kMostMaps - kLeastMaps + 1));
    for (AffineMap& map : maps)
      for (double& parameter : map.parameters) parameter = rng.uniform(-1, 1);
    Fractal fractal(std::move(maps));
    if (cells_with_points(fractal.points(seed, kGridPoints)) >= kLeastCells) return fractal;
  }
  MRMF_CHECK(false, "no fractal of a class fills any space");
}

Fractal Fractal::instance(int number) const {
  if (number == 0) return *this;
  const auto parameter = static_cast<std::size_t>((number - 1) / kFactors);
  const double factor = kLeastFactor + (kMostFactor - kLeastFactor) * ((number - 1) % kFactors) / (kFactors - 1);
  std::vector<AffineMap> maps = maps_;
  for (AffineMap& map : maps) map.parameters[parameter] *= factor;
  return Fractal(std::move(maps));
}

std::vector<Point> Fractal::points(std::uint64_t key, std::size_t count) const {
  Rng rng(key);
  std::vector<Point> points;
  points.reserve(count);
  Point x{};
  Point least{1e300, 1e300, 1e300}, most{-1e300, -1e300, -1e300};
  for (int i = -kForgotten; i < static_cast<int>(count); ++i) {
    const double drawn = rng.uniform(0, chances_.back());
    const auto map = std::ranges::upper_bound(chances_, drawn) - chances_.begin();
    x = maps_[std::min(static_cast<std::size_t>(map), maps_.size() - 1)](x);
    if (i < 0) continue;
    points.push_back(x);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      least[axis] = std::min(least[axis], x[axis]);
      most[axis] = std::max(most[axis], x[axis]);
    }
  }
  double longest = 1e-9;
  for (std::size_t axis = 0; axis < 3; ++axis) longest = std::max(longest, most[axis] - least[axis]);
  const double scale = (1 - 1e-9) / longest;
  for (Point& p : points)
    for (std::size_t axis = 0; axis < 3; ++axis) p[axis] = (p[axis] - least[axis]) * scale;
  return points;
}

}  // namespace mrmf::volumes
