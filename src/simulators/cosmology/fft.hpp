// Cubic grids, how ranks share them (each has consecutive planes of every grid), and the Fourier transforms between
// them, by FFTW in single precision. Only fft.cpp sees fftw3.h.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mpi/comm.hpp"

namespace mrmf::cosmology {

/// One rank's share of a cubic grid of n points per axis. Of points it has planes of x, of modes planes of y (the index
/// of the frequency): so a Fourier transform turns slabs over once. `ranks` divides n.
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

/// The signed frequency of index i on an axis of n points.
constexpr int frequency(int i, int n) { return i <= n / 2 ? i : i - n; }

/// Calls f(index, x, y, z) with the signed frequencies of every mode stored here: y slowest, z fastest.
template <typename Function>
void for_each_mode(const Slab& slab, Function&& f) {
  std::size_t index = 0;
  const int n = slab.n;
  for (int j = slab.first(); j < slab.first() + slab.planes(); ++j)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k <= n / 2; ++k) f(index++, frequency(i, n), frequency(j, n), k);
}

/// Memory on the boundaries that FFTW's vector code wants.
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kBoundary{64};
  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kBoundary)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kBoundary); }
  bool operator==(const AlignedAllocator&) const = default;
};

/// Values at points, x slowest, z fastest.
using RealGrid = std::vector<float, AlignedAllocator<float>>;
/// Modes of a real field, (n, n, n/2 + 1), y slowest, z fastest: those with negative z frequency follow from reality.
using ModeGrid = std::vector<std::complex<float>, AlignedAllocator<std::complex<float>>>;

/// Transforms of one size, of cubes that a thread holds whole or that the ranks of a group share. Results are the same
/// bits in both cases, for the same plans work plane by plane. Making one is for one thread at a time; using it is for
/// any number of threads, or collective over the group.
class Fft {
 public:
  /// `group` outlives it and its ranks divide n; null: whole cubes.
  explicit Fft(int n, Comm* group = nullptr);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;

  int size() const { return slab_.n; }
  const Slab& slab() const { return slab_; }
  /// modes = sum over points of field exp(-ikx); no factor. Leaves the field (slab().points()) as it is.
  void to_modes(std::span<float> field, ModeGrid& modes) const;
  /// field = sum over all modes of mode exp(ikx); no factor. Destroys the modes.
  void to_field(ModeGrid& modes, std::span<float> field) const;

 private:
  struct Plans;
  Slab slab_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace mrmf::cosmology
