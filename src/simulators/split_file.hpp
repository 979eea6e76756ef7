// What simulators share that write one file with three splits: the rows of each split, the ranks' shares of them, and
// the data sets that they go to.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/output.hpp"
#include "io/rows/sample_order.hpp"
#include "kernels/timer.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

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
  double samples_per_second = 0;  ///< of all ranks together
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

}  // namespace mrmf
