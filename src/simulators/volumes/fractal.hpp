// Fractals in space: iterated function systems, each a class of shapes, and the instances of a class.
//
// The recipe is that of LLNL's ScaFFold benchmark (after Kataoka et al. 2020): 2 to 8 affine maps with 12 parameters
// each; an instance scales one of the 12, in all maps, by one of 12 factors from 0.4 to 1.6.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/random.hpp"

namespace mrmf::volumes {

using Point = std::array<double, 3>;

/// x -> a x + b.
struct AffineMap {
  std::array<double, 12> parameters{};  ///< the rows of a, then b

  Point operator()(const Point& x) const;
  /// |det a|: how likely the map is drawn, relative to others.
  double volume() const;
  /// Scales a down where it would not contract.
  void contract();
};

inline constexpr int kParameters = 12, kFactors = 12;
inline constexpr int kInstances = kParameters * kFactors + 1;  ///< of a class: the first is the class itself

/// An iterated function system. Its points are those that random maps lead to, one after the other.
class Fractal {
 public:
  /// The shape of a class: the first of those drawn from (seed, number) that fills some space.
  static Fractal of_class(std::uint64_t seed, int number);
  Fractal instance(int number) const;  ///< below kInstances

  const std::vector<AffineMap>& maps() const { return maps_; }  ///< all of them contract

  /// So many points, shifted and scaled alike along all axes into the cube [0, 1)^3.
  std::vector<Point> points(std::uint64_t key, std::size_t count) const;

 private:
  explicit Fractal(std::vector<AffineMap> maps);
  std::vector<AffineMap> maps_;
  std::vector<double> chances_;  // summed up
};

}  // namespace mrmf::volumes
