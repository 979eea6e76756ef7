// `mrmf simulate volumes`: makes pairs of a noisy volume and the mask of what is in it, for segmentation.
//
// In every volume float a few fractals, each of some class (fractal.hpp). The volume shows them at random brightness
// under noise; the mask holds the class at each position, 0 where there is none. What a class looks like is its shape
// alone. A sample depends on the settings, the seed and its number alone, so the file's bytes do not depend on ranks or
// threads.
#pragma once

#include <cstdint>
#include <string>

#include "io/output_file.hpp"
#include "src/simulators/split_file.hpp"

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

struct VolumesReport {
  Index samples = 0;
  double seconds = 0;  ///< including writing
  double samples_per_second = 0;
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
