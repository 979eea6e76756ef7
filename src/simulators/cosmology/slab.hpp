// How ranks share a cube: each has consecutive planes of every grid.
#pragma once

#include <cstddef>

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

}  // namespace mrmf::cosmology
