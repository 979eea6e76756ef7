// What a configuration's data are, found by reading them once, and what is done to the numbers of their files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/channel_statistics.hpp"
#include "src/data/row_facts.hpp"

namespace mrmf {

/// Samples or labels of one split.
struct NumbersFound {
  std::string name;                        ///< name of the data set
  std::vector<std::string> types;          ///< in the files, such as "float64"; those that occur
  std::vector<std::string> storage;        ///< "contiguous", "compressed (1 row a chunk)", ...
  std::string shape;                       ///< shape of one sample, channels last
  std::vector<std::string> packing{};      ///< what is applied to the numbers in the files (packing_texts())
  std::vector<std::string> not_applied{};  ///< what is not (not_applied_texts())
  std::vector<Index> row_bytes{};          ///< in each file, unpacked
  std::optional<std::size_t> unpacked{};   ///< the first file with numbers that HDF5 must read; none: no file has such
  std::optional<ChannelFacts> facts;       ///< missing where labels are classes, or nothing was read
  std::optional<double> missing;           ///< how many; of labels, those that do not count. None: nothing was read
  bool scaled_in_part = false;             ///< PackingCount::scaled_in_part()
  bool limited = false;                    ///< attributes say that numbers beyond a limit are missing
};

struct SplitFound {
  std::string part;  ///< "training", "validation" or "test"
  DatasetShape shape;
  DatasetSpec spec;
  std::vector<Index> not_finite;  ///< rows whose samples or labels hold NaN or infinity, over all files
  std::vector<Index> not_filled;  ///< those of them that are no matter of "fill": NaN in labels, infinity
  double bytes = 0;               ///< bytes of samples in the files, unpacked
  NumbersFound samples, labels;
  std::vector<Index> class_counts;  ///< empty where labels are no classes
  std::optional<RowFacts> rows;     ///< rows of samples; missing where nothing was read
};

struct DataFound {
  std::vector<SplitFound> splits;  ///< training, validation and, where there is one, test
  /// What will be slow or go wrong, each with what to do about it; the root knows all.
  std::vector<std::string> advice;
};

/// Reads all headers and, unless `headers_only`, every sample and label once, by all ranks together. Rows that are not
/// finite are found, whatever data.not_finite says, and left out, unless NaN says that a number is missing: because
/// data.not_finite = "fill", or attributes of the files say so. Collective. DataError as inspect_dataset's.
DataFound survey(const Config& config, bool headers_only, Comm& comm);

}  // namespace mrmf
