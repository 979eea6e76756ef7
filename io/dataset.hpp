// What a data set is: which files, which names, which shape.
#pragma once

#include <string>
#include <vector>

#include "io/element.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// How a file's (T, C) sample is seen (the layout trap).
/// transpose: as it is stored, positions by channels. reinterpret: the flat buffer read as (C, T), which is what the
/// reference Neuron Inverter code feeds its convolutions. Averaging happens before either.
enum class SampleLayout { transpose, reinterpret };

/// What to do about rows that were never written, or whose virtual source is not there.
/// refuse: DataError. fill: take the file's fill value for them, as HDF5 does.
enum class MissingRule { refuse, fill };

struct DatasetSpec {
  std::vector<std::string> files;  ///< read as one data set, concatenated along the first axis
  std::string samples, labels;     ///< data set names; no labels (prediction): an empty name, and outputs is 0
  SampleLayout layout = SampleLayout::transpose;
  MissingRule missing = MissingRule::refuse;
  bool operator==(const DatasetSpec&) const = default;
};

/// Bytes that HDF5 takes beside the rows it reads; none for data sets that are not chunked.
struct ChunkMemory {
  Index cache = 0;      ///< what each open data set keeps of unpacked chunks, if it may
  Index unpacking = 0;  ///< while a chunk is unpacked
  bool operator==(const ChunkMemory&) const = default;
};
constexpr Index kMostCached = Index{1} << 28;  ///< of unpacked chunks, in all data sets that are open at once

/// What a data set holds, read from the files' headers on the root and broadcast.
struct DatasetShape {
  Index samples = 0;
  Shape sample;                             ///< at the original resolution, channels-last, n = 0
  Index outputs = 0;                        ///< labels per sample
  std::vector<Index> file_samples;          ///< samples in each file, in the order of the list
  ElementType type = ElementType::float32;  ///< in memory: the files' own; float32 for float64 and for a mixture
  ChunkMemory chunks{};                     ///< the most of any file
  Index converted = 0;  ///< bytes per element, the most of any file, where it is not stored as `type`; else 0
  bool operator==(const DatasetShape&) const = default;
};

/// Samples are (n, F) for flat features, else (n, W, C), (n, H, W, C) or (n, D, H, W, C); labels (n) or (n, outputs).
/// Collective. Checks every file: present, HDF5, whole, both data sets there, readable types, same sample shape, as
/// many labels as samples, at least one sample, no rows missing unless they may be. DataError naming file and data set
/// otherwise, on every rank.
DatasetShape inspect_dataset(const DatasetSpec& spec, Comm& comm);

/// Collective. DataError naming file and data set where ranks see different contents under the same name, as on nodes
/// with file systems of their own: every rank reads the headers of all files, and a little of a few rows of each.
void require_same_data(const DatasetSpec& spec, Comm& comm);

}  // namespace mrmf
