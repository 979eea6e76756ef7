// A grid that ranks share, turned round: from slabs along its first axis to slabs along its second. By FFTW-MPI.
#pragma once

#include <memory>
#include <span>

#include "mpi/comm.hpp"

namespace mrmf {

/// For grids (n, n, depth) of floats, of which each rank has n / ranks consecutive planes of the first axis.
class SlabTranspose {
 public:
  /// Whether FFTW-MPI can turn such a grid: its pieces between two ranks, (n / ranks)^2 * depth floats, are counted in
  /// MPI's ints.
  static bool fits(int n, int depth, int ranks);

  /// Collective. The ranks divide n, and it fits; the communicator outlives this. FaultError when a rank has not come
  /// within the communicator's limit.
  SlabTranspose(Comm& comm, int n, int depth);
  ~SlabTranspose();
  SlabTranspose(const SlabTranspose&) = delete;
  SlabTranspose& operator=(const SlabTranspose&) = delete;

  /// Collective. Swaps the first two axes in place: of (x, y, depth) with this rank's x it makes (y, x, depth) with
  /// this rank's y. Once more gives back what was. `slab` has n / ranks * n * depth floats on a 16-byte boundary.
  /// FaultError when a rank has not come within the communicator's limit. What goes wrong after that, or hangs, ends
  /// the program with a message, for FFTW passes no errors on.
  void swap(std::span<float> slab) const;

 private:
  struct Plan;
  Comm& comm_;
  std::size_t size_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace mrmf
