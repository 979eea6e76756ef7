// Cubic grids, their division among ranks (each has consecutive planes of every grid), and the Fourier transforms
// between them, by FFTW in single precision. Only fft.cpp sees fftw3.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mpi/comm.hpp"
#include "src/simulators/modes.hpp"

namespace mrmf::cosmology {

// In cubes, points are stored x slowest, z fastest, and modes, (n, n, n/2 + 1), y slowest, z fastest.
using mrmf::frequency, mrmf::ModeGrid, mrmf::RealGrid;

/// One rank's share of a cubic grid of n points per axis. It has planes of x for points, and planes of y (the
/// frequency's index) for modes, so a Fourier transform transposes slabs once. `ranks` divides n.
struct Slab {
  int n = 0;
  int rank = 0, ranks = 1;

  int planes() const { return n / ranks; }
  int first() const { return rank * planes(); }
  bool whole() const { return ranks == 1; }
  std::size_t points() const { return planes_of(static_cast<std::size_t>(n)); }         ///< here
  std::size_t modes() const { return planes_of(static_cast<std::size_t>(n / 2 + 1)); }  ///< here
  std::size_t cube() const { return points() * static_cast<std::size_t>(ranks); }       ///< points of all ranks

 private:
  std::size_t planes_of(std::size_t row) const {
    return static_cast<std::size_t>(planes()) * static_cast<std::size_t>(n) * row;
  }
};

/// Calls f(index, x, y, z) with the signed frequencies of every mode stored here: y slowest, z fastest.
template <typename Function>
void for_each_mode(const Slab& slab, Function&& f) {
  std::size_t index = 0;
  const int n = slab.n;
  for (int j = slab.first(); j < slab.first() + slab.planes(); ++j)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k <= n / 2; ++k) f(index++, frequency(i, n), frequency(j, n), k);
}

/// Transforms of one size, for cubes that a thread holds whole or that a group of ranks shares. Both give the same
/// bits, because the same plans work plane by plane. Only one thread at a time may make one. Any number of threads may
/// use it, or it is collective over the group.
class Fft {
 public:
  /// `group` must outlive it, and its ranks divide n; null: whole cubes.
  explicit Fft(int n, Comm* group = nullptr);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;

  int size() const { return slab_.n; }
  const Slab& slab() const { return slab_; }
  /// modes = sum over points of field exp(-ikx), without a factor. Leaves the field (slab().points()) unchanged.
  void to_modes(std::span<float> field, ModeGrid& modes) const;
  /// field = sum over all modes of mode exp(ikx), without a factor. Destroys the modes.
  void to_field(ModeGrid& modes, std::span<float> field) const;

 private:
  struct Plans;
  Slab slab_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace mrmf::cosmology
