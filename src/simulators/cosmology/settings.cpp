// What cannot be simulated, refused before anything is.
#include <fmt/format.h>
#include <omp.h>

#include <bit>
#include <cmath>

#include "mpi/slab_transpose.hpp"
#include "src/simulators/cosmology/files.hpp"

namespace mrmf {
namespace {

constexpr int kLargestLattice = 4096;  // particles, or mesh cells, per axis: indices stay within FFTW's and ours

void refuse(const std::string& what) { throw ConfigError("simulate cosmology: " + what); }

bool power_of_two(int n) { return n > 0 && std::has_single_bit(static_cast<unsigned>(n)); }

void check_grids(const CosmologySimulation& s) {
  if (!power_of_two(s.size) || s.size < 4 || s.size > 1024)
    refuse(fmt::format("size {} is not a power of two from 4 to 1024", s.size));
  if (!power_of_two(s.particles) || s.particles > 8)
    refuse(fmt::format("{} particles per voxel and axis asked for; 1, 2, 4 or 8 are possible", s.particles));
  if (s.mesh < 1 || s.mesh > 4)
    refuse(fmt::format("{} mesh cells per particle and axis asked for; 1, 2, 3 or 4 are possible", s.mesh));
  if (s.size * s.particles * s.mesh > kLargestLattice)
    refuse(fmt::format("{} particles and {} mesh cells per axis are too many; {} cells are the most",
                       s.size * s.particles, s.size * s.particles * s.mesh, kLargestLattice));
  if (!std::isfinite(s.box) || s.box < 16 || s.box > 10000)
    refuse(fmt::format("a box of {} Mpc/h is none of 16 to 10000; the published side is 512", s.box));
}

void check_sharing(const CosmologySimulation& s) {
  if (!power_of_two(s.ranks_per_cube) || s.ranks_per_cube > s.size)
    refuse(fmt::format("{} ranks per cube cannot share {} planes of voxels equally; a power of two up to {} can",
                       s.ranks_per_cube, s.size, s.size));
  const int cells = s.size * s.particles * (s.method == "cola" ? s.mesh : 1);
  int enough = s.ranks_per_cube;
  while (!SlabTranspose::fits(cells, cells + 2, enough)) enough *= 2;
  if (enough > s.ranks_per_cube)
    refuse(
        fmt::format("{} cells per axis are too many for {} ranks per cube: MPI counts what two ranks exchange in 32 "
                    "bits; use more ranks per cube, at least {}",
                    cells, s.ranks_per_cube, enough));
  if (s.ranks_per_cube > 1 && s.threads > 1)
    refuse(
        fmt::format("{} threads per rank asked for where ranks share a cube, which takes one; ask for more ranks "
                    "per cube instead",
                    s.threads));
}

}  // namespace

int makers(const CosmologySimulation& s) {
  if (s.threads > 0) return s.threads;
  return s.ranks_per_cube > 1 ? 1 : omp_get_max_threads();
}

double bytes_per_thread(const CosmologySimulation& s) {
  const double lattice = std::pow(s.size * s.particles, 3), mesh = lattice * std::pow(s.mesh, 3);
  const double vectors = s.method == "cola" ? 12 : 9;  // two displacements, position and velocity
  const double counts = std::pow(s.size, 3) * 4 * sizeof(std::uint16_t);
  return (sizeof(float) * (lattice * (vectors + 3) + mesh * (s.method == "cola" ? 5 : 0)) + counts) / s.ranks_per_cube;
}

void check(const CosmologySimulation& s) {
  if (s.folder.empty()) refuse("no folder to write to is named; give --output FOLDER");
  if (s.samples < 3) refuse(fmt::format("{} samples asked for; at least 3 are needed, one per split", s.samples));
  if (s.per_file < 1 || s.per_file > 128)
    refuse(fmt::format("{} samples per file asked for; the published files hold 1 to 128", s.per_file));
  check_grids(s);
  if (s.method != "lpt" && s.method != "cola") refuse(fmt::format("method '{}' is neither lpt nor cola", s.method));
  if (s.steps < 1 || s.steps > 1000) refuse(fmt::format("{} time steps asked for; 1 to 1000 are possible", s.steps));
  if (s.threads < 0) refuse(fmt::format("{} threads asked for; 0 means as many as OpenMP has", s.threads));
  check_sharing(s);
  cosmology::cube_files(s);
}

}  // namespace mrmf
