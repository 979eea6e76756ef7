// Cubic grids and the Fourier transforms between them, by FFTW in single precision. fftw3.h stays behind fft.cpp.
#pragma once

#include <complex>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

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

/// Values at n^3 points, x slowest, z fastest.
using RealGrid = std::vector<float, AlignedAllocator<float>>;
/// Modes of a real field, (n, n, n/2 + 1): those with negative z frequency follow from reality.
using ModeGrid = std::vector<std::complex<float>, AlignedAllocator<std::complex<float>>>;

/// The signed frequency of index i on an axis of n points.
constexpr int frequency(int i, int n) { return i <= n / 2 ? i : i - n; }

/// Transforms of one size. Making one is for one thread at a time; using it is for any number.
class Fft {
 public:
  explicit Fft(int n);
  ~Fft();
  Fft(const Fft&) = delete;
  Fft& operator=(const Fft&) = delete;

  int size() const { return n_; }
  std::size_t points() const;
  std::size_t modes() const;
  /// modes = sum over points of field exp(-ikx); no factor. Leaves the field as it is.
  void to_modes(RealGrid& field, ModeGrid& modes) const;
  /// field = sum over all modes of mode exp(ikx); no factor. Destroys the modes.
  void to_field(ModeGrid& modes, RealGrid& field) const;

 private:
  struct Plans;
  int n_;
  std::unique_ptr<Plans> plans_;
};

/// Calls f(index, x, y, z) with the signed frequencies of every stored mode.
template <typename Function>
void for_each_mode(int n, Function&& f) {
  std::size_t index = 0;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k <= n / 2; ++k) f(index++, frequency(i, n), frequency(j, n), k);
}

}  // namespace mrmf::cosmology
