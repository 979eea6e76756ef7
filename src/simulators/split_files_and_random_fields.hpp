// What simulators share: the settings, progress and report of a simulation, the file with three splits that it writes,
// and random Fourier modes of fields.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/output.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

// What simulators share that write one file with three splits: the rows of each split, the ranks' shares of them, and
// the data sets that they go to.

/// Called now and then on the root with the samples done so far (estimated from the root's share) and with all samples.
using ProgressFunction = std::function<void(Index done, Index samples)>;

/// Shares of the samples; sum 1.
struct SplitShares {
  double train = 0.8, validation = 0.1, test = 0.1;
};

/// What simulators of images are asked for.
struct PlaneSimulation {
  std::string file;
  Replace replace = Replace::nothing;
  Index samples = 5000;  ///< in all splits together
  int size = 64;         ///< pixels per axis, even
  std::uint64_t seed = 1;
  SplitShares shares;
  int threads = 0;  ///< per rank; 0: OpenMP's number
};

struct SimulationReport {
  Index samples = 0;
  double seconds = 0;             ///< including writing
  double samples_per_second = 0;  ///< the rate of all ranks together
};
/// Collective: of a simulation that began with `timer` and is written; the slowest rank's time.
SimulationReport report_of(const Timer& timer, Index samples, Comm& comm);

struct FileSplit {
  const char* name;  ///< its name in data sets: train, val, test
  Range rows;        ///< which of all rows, where the three splits follow one another
};
using FileSplits = std::array<FileSplit, 3>;

/// Sizes are rounded; the training split gets the rest.
FileSplits file_splits(Index samples, const SplitShares& shares);

/// ConfigError that begins with `command` when the shares do not add up to 1 or a split has no row.
void check_splits(const std::string& command, Index samples, const SplitShares& shares);

/// ConfigError that begins with `command` when no such images can be made; at least `least` pixels per axis.
void check_planes(const std::string& command, const PlaneSimulation& settings, int least);

/// A data set of every split: train_<what>, val_<what>, test_<what>.
struct SplitDataset {
  std::string what;
  std::vector<Index> row;                   ///< shape of one row
  ElementType type = ElementType::float32;  ///< or uint16
};

/// Collective: the data sets, split by split.
void create_datasets(Hdf5Output& file, const FileSplits& splits, const std::vector<SplitDataset>& datasets);

/// On any rank: writes the values of a block of all rows, which may lie in several splits.
void write_rows(Hdf5Output& file, const FileSplits& splits, const std::string& what, const Range& block,
                ConstSpan values);
void write_rows(Hdf5Output& file, const FileSplits& splits, const std::string& what, const Range& block,
                std::span<const std::uint16_t> values);

/// Collective: cuts this rank's share of the rows into blocks of at most `most` rows and calls `work` for each, in
/// order. An error of one rank is thrown on all.
void for_each_block(Comm& comm, Index samples, Index most, const std::function<void(const Range&)>& work,
                    const ProgressFunction& progress);

// What simulators with periodic random fields share: grids of points and of Fourier modes, and random modes.

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
