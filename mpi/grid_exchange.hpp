// Exchanges between ranks that share a grid: messages between those that share a sample, such as halos, and the
// transposition of slabs by FFTW-MPI.
#pragma once

#include <memory>
#include <span>

#include "kernels/step_and_collectives.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// Messages between the ranks that share a sample, over MPI.

/// Between the ranks of a group, from and to the host's memory. Keeps a reference to `group`. finish() throws
/// FaultError where a rank keeps the others waiting for longer than the group's limit.
std::unique_ptr<Messages> make_messages(Comm& group);

// Transposes a grid that ranks share: from slabs along its first axis to slabs along its second. Uses FFTW-MPI.

/// For grids (n, n, depth) of floats. Each rank has n / ranks consecutive planes of the first axis.
class SlabTranspose {
 public:
  /// Whether FFTW-MPI can transpose such a grid. MPI counts the floats between two ranks, (n / ranks)^2 * depth, in an
  /// int.
  static bool fits(int n, int depth, int ranks);

  /// Collective. The number of ranks divides n, and the grid fits; the communicator must outlive this. FaultError when
  /// a rank does not arrive within the communicator's limit.
  SlabTranspose(Comm& comm, int n, int depth);
  ~SlabTranspose();
  SlabTranspose(const SlabTranspose&) = delete;
  SlabTranspose& operator=(const SlabTranspose&) = delete;

  /// Collective. Swaps the first two axes in place: (x, y, depth) with this rank's x becomes (y, x, depth) with this
  /// rank's y. A second swap restores the original. `slab` has n / ranks * n * depth floats on a 16-byte boundary.
  /// FaultError when a rank does not arrive within the communicator's limit. Later errors or hangs end the program with
  /// a message, because FFTW does not report errors.
  void swap(std::span<float> slab) const;

 private:
  struct Plan;
  Comm& comm_;
  std::size_t size_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace mrmf
