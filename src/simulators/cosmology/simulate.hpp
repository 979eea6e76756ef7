// `mrmf simulate cosmology`: makes a data set in the published schema of the CosmoFlow cubes.
//
// Every sample is one universe: a periodic box of dark matter particles that fell together under gravity from random
// initial conditions, counted in voxels at four redshifts. A network is to infer the four parameters behind it. The
// files' bytes depend only on the settings other than output folder, threads and ranks per cube, not on ranks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/rows/sample_order.hpp"

namespace mrmf {

/// How particles move from where they began to where they are counted. lpt: only by displacements of second order;
/// cola: by time steps of gravity in addition.
enum class Displacement { lpt, cola };
std::string to_string(Displacement displacement);
/// The method with this name; ConfigError when there is none.
Displacement read_displacement(const std::string& word);

struct CosmologySimulation {
  std::string folder;
  Replace replace = Replace::nothing;
  Index samples = 160;   ///< samples of all three splits together, 8:1:1 as published
  Index per_file = 128;  ///< most samples per file
  int size = 64;         ///< voxels per axis; a power of two
  double box = 512;      ///< side in Mpc/h at H_0 = 70; scaled with H_0, so that it is the same in Mpc for all samples
  int particles = 2;     ///< per voxel and axis: the mean count is its cube
  Displacement method = Displacement::cola;
  int steps = 10;  ///< cola: time steps from a = 0.1 to 1, equal in a
  int mesh = 1;    ///< cola: cells of the mesh for the forces per particle and axis
  std::uint64_t seed = 1;
  int threads = 0;         ///< per rank, each with its own cube; 0: OpenMP's number, or 1 if ranks share a cube
  int ranks_per_cube = 1;  ///< ranks that share a cube, each with slabs of its grids: a power of two up to `size`
};

struct CosmologyReport {
  Index samples = 0, files = 0;
  double seconds = 0;           ///< including writing
  double cubes_per_second = 0;  ///< cubes per second of all ranks together
};

/// Called on the root with the samples done so far (estimated from the root's share) and with all samples.
using CubeProgress = std::function<void(Index done, Index samples)>;

/// ConfigError when the settings are impossible.
void check(const CosmologySimulation& settings);

/// Threads of a rank; each makes cubes.
int makers(const CosmologySimulation& settings);

/// Bytes that one thread needs while it makes a cube, or its part of one.
double bytes_per_thread(const CosmologySimulation& settings);

/// Collective; ConfigError when settings.ranks_per_cube does not divide the ranks. Makes the folder if necessary and
/// writes the files of cube_files() into it, each whole or not at all:
///   3Dmap      (n, size, size, size, 4) uint16   particles per voxel at the redshifts
///   unitPar    (n, 4) float32                    labels: Omega_m, sigma_8, n_s, H_0 scaled to [-1, 1)
///   physPar    (n, 4) float32                    the same, unscaled
///   redshifts  (4,) float32                      0, 0.5, 1.5, 3
///   namePar, meta.JSON (1,) string               names of the parameters; how the file was made
/// Also writes data.toml, the [data] section of a configuration that trains on them. Files that an earlier start made
/// with the same settings are kept, so the simulation continues from there. ConfigError when the folder holds such a
/// data set, whole, or files of another one, and settings.replace is nothing. DataError when the folder cannot be
/// written. FaultError when more than 65535 particles meet in a voxel.
CosmologyReport simulate_cosmology(const CosmologySimulation& settings, Comm& comm, const CubeProgress& progress = {});

}  // namespace mrmf

// The files of a data set: their samples, by the names and the split of the published files, and their metadata.

namespace mrmf::cosmology {

/// The most files per split, 80 together.
constexpr Index kTrainFiles = 64, kOtherFiles = 8;

struct CubeFile {
  std::string name;  ///< PeterA_2019_05_4parE-rec<number>.h5
  Range samples;     ///< which of all samples
};

struct CubeFiles {
  std::vector<CubeFile> train, validation, test;
};

/// Validation and test get a tenth of the samples each (at least one), spread evenly over the fewest files that hold
/// them. ConfigError when a split would need more files than were published.
CubeFiles cube_files(const CosmologySimulation& settings);

/// The beginning of such files' names.
constexpr const char* kFilePrefix = "PeterA_2019_05_4parE-rec";

/// JSON for the data set meta.JSON: settings, parameters, the file's samples out of how many, and the program's
/// version.
std::string metadata(const CosmologySimulation& settings, const CubeFile& file);

/// The [data] section of a configuration that trains on these files with `mrmf train`.
std::string data_section(const CosmologySimulation& settings);

}  // namespace mrmf::cosmology
