// What simulators with periodic random fields share: grids of points and of Fourier modes, and random modes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace mrmf {

/// Memory aligned as FFTW's vector code wants.
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

using RealGrid = std::vector<float, AlignedAllocator<float>>;
/// Modes of a real field. Along the last axis only frequencies from 0 to n/2; the others follow from reality.
using ModeGrid = std::vector<std::complex<float>, AlignedAllocator<std::complex<float>>>;

/// The signed frequency of index i on an axis of n points.
constexpr int frequency(int i, int n) { return i <= n / 2 ? i : i - n; }

/// The mode of a white Gaussian random field at these frequencies: complex, mean square 1. A pure function of key and
/// frequencies, and the conjugate of that at the opposite ones. The last frequency is of the axis stored from 0 on. Not
/// for modes that are their own opposite: all frequencies 0, or one n/2.
std::complex<double> random_mode(std::uint64_t key, int x, int y, int z);

}  // namespace mrmf
