// The hot spot of an imploded capsule at the time when it burns: what a few numbers of the drive make of it, and what
// instruments see of it. A smooth analytic model that stands in for a radiation-hydrodynamics code: power laws in the
// drive around one design, in the form that such codes' results are usually summed up in, and a spot of one pressure
// whose boundary has the second and fourth Legendre mode. Its numbers are of the right size and change in the right
// direction. They are no prediction of any experiment.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace mrmf::implosion {

/// An input or a scalar: its name and unit, and for an input what it stands for: centre + half_width * input.
struct Quantity {
  const char* name;
  const char* unit;
  double centre = 0, half_width = 0;
};

inline constexpr std::size_t kInputs = 5, kScalars = 15, kBands = 4;
using Inputs = std::array<float, kInputs>;  ///< in [-1, 1]
using Scalars = std::array<float, kScalars>;

const std::array<Quantity, kInputs>& inputs();
const std::array<Quantity, kScalars>& scalars();
const std::array<double, kBands>& band_energies();  ///< keV, of the images' channels

/// The state of one hot spot.
struct HotSpot {
  double velocity = 0;     ///< km/s, of the shell before it is slowed down
  double adiabat = 0;      ///< of the shell
  double mix = 0;          ///< share of the hot spot's mass that is of the shell
  double radius = 0;       ///< micrometres, mean
  double p2 = 0, p4 = 0;   ///< amplitudes of the boundary's modes, over the radius
  double temperature = 0;  ///< keV, at the centre
  double pressure = 0;     ///< Gbar
  /// The boundary's distance from the centre, over the mean radius, where the cosine of the angle to the axis is `c`.
  double boundary(double c) const;
};

HotSpot hot_spot(const Inputs& inputs);
Scalars scalars_of(const HotSpot& spot);

/// Relative emission of a volume in each band, at a place `r` of the distance to the boundary (0: centre; 1 and beyond:
/// none).
std::array<double, kBands> emission(const HotSpot& spot, double r);

/// What is seen from the side, the axis upright: (size, size, kBands), the emission along every line of sight. The
/// image has kSide micrometres a side; it is the same upside down and left to right, as the modes are. `size` is even.
inline constexpr double kSide = 160;
void draw(const HotSpot& spot, int size, std::span<float> image);

}  // namespace mrmf::implosion
