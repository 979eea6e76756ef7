// This rank's part of a data set in memory, at every resolution that was asked for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/hdf5.hpp"
#include "io/order.hpp"

namespace mrmf {

/// How a file's (T, C) sample is seen (applications.md 2.1 calls it the layout trap).
/// transpose: as it is stored, positions by channels. reinterpret: the flat buffer read as (C, T), which is what the
/// reference Neuron Inverter code feeds its convolutions. Averaging happens before either.
enum class SampleLayout { transpose, reinterpret };

struct DatasetSpec {
  std::vector<std::string> files;  ///< read as one data set, concatenated along the first axis
  std::string samples, labels;     ///< data set names; no labels (prediction): an empty name, and outputs is 0
  SampleLayout layout = SampleLayout::transpose;
  bool operator==(const DatasetSpec&) const = default;
};

/// What a data set holds, read from the files' headers on the root and broadcast.
struct DatasetShape {
  Index samples = 0;
  Shape sample;                     ///< at the original resolution, channels-last, n = 0
  Index outputs = 0;                ///< labels per sample
  std::vector<Index> file_samples;  ///< samples in each file, in the order of the list
  bool operator==(const DatasetShape&) const = default;
};

/// Samples are (n, F) for flat features, else (n, W, C), (n, H, W, C) or (n, D, H, W, C); labels (n) or (n, outputs).
/// Collective. Checks every file: present, HDF5, whole, both data sets there, readable types, same sample shape, as
/// many labels as samples, at least one sample. DataError naming file and data set otherwise, on every rank.
DatasetShape inspect_dataset(const DatasetSpec& spec, Comm& comm);

class SampleStore {
 public:
  /// Collective. Each rank reads its rows `owned` and checks them for NaN and infinity (DataError: file, data set,
  /// row in that file); when one rank fails, all throw its error.
  SampleStore(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Comm& comm);

  /// Makes the data of this resolution if it is not there yet: each block of factors' neighbours becomes their mean,
  /// channel by channel. ConfigError when a factor does not divide its axis.
  void require(const Extent& resolution);
  /// Frees a resolution that no later step of the plan needs. Others are made from the original {1, 1, 1}: release
  /// that one only when all that will be needed have been required.
  void release(const Extent& resolution);

  Shape sample(const Extent& resolution) const;
  Index outputs() const { return shape_.outputs; }
  Range owned() const { return owned_; }

  /// Copies samples and labels of the given global ids (all owned) into x and targets, one row per id. With
  /// `reinterpret`, position t and channel c of a sample of T positions come from element c * T + t of its buffer.
  void gather(const Extent& resolution, std::span<const std::int64_t> ids, Tensor x, Tensor targets) const;

 private:
  void load(const DatasetSpec& spec);
  void view_original(SampleLayout layout);
  const std::vector<float>& data(const Extent& resolution) const;

  DatasetShape shape_;
  Range owned_;
  SampleLayout layout_;
  SampleLayout original_layout_ = SampleLayout::transpose;  // how original_ lies in memory now
  std::vector<float> original_, labels_;
  std::map<Extent, std::vector<float>> resolved_;
};

}  // namespace mrmf
