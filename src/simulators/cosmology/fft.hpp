// Cubic grids and the Fourier transforms between them, by FFTW in single precision. fftw3.h stays behind fft.cpp.
#pragma once

#include <complex>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mpi/comm.hpp"
#include "src/simulators/cosmology/slab.hpp"

namespace mrmf::cosmology {

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
