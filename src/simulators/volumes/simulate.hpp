// `mrmf simulate volumes`: makes pairs of a noisy volume and the mask of what is in it, for segmentation.
//
// In every volume float a few fractals, each of some class. The volume shows them at random brightness under noise; the
// mask holds the class at each position, 0 where there is none. What a class looks like is its shape alone. A sample
// depends on the settings, the seed and its number alone, so the file's bytes do not depend on ranks or threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "kernels/random.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf::volumes {

// Fractals in space: iterated function systems, each a class of shapes, and the instances of a class.
//
// The recipe is that of LLNL's ScaFFold benchmark (after Kataoka et al. 2020): 2 to 8 affine maps with 12 parameters
// each; an instance scales one of the 12, in all maps, by one of 12 factors from 0.4 to 1.6.

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
inline constexpr int kInstances = kParameters * kFactors + 1;  ///< instances of a class: the first is the class itself

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

namespace mrmf {

struct VolumesSimulation {
  std::string file;
  Replace replace = Replace::nothing;
  Index samples = 200;  ///< in all splits together
  int size = 64;        ///< voxels per axis
  int classes = 5;      ///< beside the background
  int fractals = 3;     ///< in each volume
  double noise = 0.3;   ///< deviation; the brightness of a fractal is about 1
  std::uint64_t seed = 1;
  SplitShares shares;
  int threads = 0;  ///< per rank; 0: OpenMP's number
};

struct VolumesReport : SimulationReport {
  double filled = 0;  ///< share of the voxels that are not background, in this rank's samples
};

/// ConfigError when the settings are impossible.
void check(const VolumesSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_volumes, val_volumes, test_volumes  (n, size, size, size, 1)  float32
///   train_masks, val_masks, test_masks        (n, size, size, size)     uint16, 0 to classes
///   meta.JSON                                 (1,)                      settings, seed, ...
/// Sample i is row i of all splits, which follow one another.
VolumesReport simulate_volumes(const VolumesSimulation& settings, Comm& comm, const ProgressFunction& progress = {});

}  // namespace mrmf

namespace mrmf::volumes {

/// What tells one sample of a data set from another.
struct Scene {
  Index sample = 0;  ///< draws shapes, places and noise, with the seed of the settings
  int fractals = 3;
  double noise = 0.3;
};

/// Draws volumes and masks. Immutable, so threads share it.
class Painter {
 public:
  explicit Painter(const VolumesSimulation& settings);
  /// Both have size^3 positions.
  void paint(const Scene& scene, std::span<float> volume, std::span<std::uint16_t> mask) const;

 private:
  void add_fractal(Rng& rng, std::uint64_t key, std::span<float> volume, std::span<std::uint16_t> mask) const;

  int size_;
  std::uint64_t seed_;
  std::vector<Fractal> shapes_;
};

}  // namespace mrmf::volumes
