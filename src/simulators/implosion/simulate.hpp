// `mrmf simulate implosion`: the hot spot of an imploded capsule, its images and scalars as functions of a few inputs,
// and the data set that is made of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/files/output_file.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf::implosion {

// The hot spot of an imploded capsule at the time when it burns: what a few numbers of the drive make of it, and what
// instruments see of it. A smooth analytic model that stands in for a radiation-hydrodynamics code: power laws in the
// drive around one design, in the form that such codes' results are usually summed up in, and a spot of one pressure
// whose boundary has the second and fourth Legendre mode. Its numbers are of the right size and change in the right
// direction. They are no prediction of any experiment.

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
  double adiabat = 0;      ///< the shell's adiabat
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

namespace mrmf {

// `mrmf simulate implosion`: five numbers of a drive, and the fifteen scalars and four images of the hot spot that it
// makes: a stand-in for simulations of inertial confinement fusion, to train surrogates and inverse
// models on. A sample depends on the seed, the size and its number alone, so the file's bytes do not depend on ranks or
// threads.

struct ImplosionSimulation : PlaneSimulation {};

/// ConfigError when the settings are impossible.
void check(const ImplosionSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_inputs, val_..., test_...   (n, 5)                in [-1, 1], uniform
///   train_scalars, val_..., test_...  (n, 15)               in the units that meta.JSON names
///   train_images, val_..., test_...   (n, size, size, 4)    emission in four bands, from the side
///   meta.JSON                         (1,)                  what inputs and scalars are, seed, ...
/// Sample i is row i of all splits, which follow one another.
SimulationReport simulate_implosion(const ImplosionSimulation& settings, Comm& comm,
                                    const ProgressFunction& progress = {});

}  // namespace mrmf
