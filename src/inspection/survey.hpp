// A survey of a configuration's data, and of the numbers in their files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/data/statistics.hpp"

namespace mrmf {

// What is done to the numbers of a data set's files, or groups, which may each have attributes of their own.

/// How one name's numbers are read.
struct PackingCount {
  std::map<std::string, Index> texts;  ///< in how many files or groups so, by Packing::text(); nothing is done: nothing
  Index all = 0;                       ///< files or, where these are samples, groups
  Index scaled = 0, whole = 0;         ///< those with a scale or offset, and those whose integers are taken as stored
  Index declared = 0;                  ///< those whose attributes tell what is missing
  std::string what;                    ///< "files" or "groups"
  std::map<std::string, Index> not_applied{};  ///< the same of Packing::not_applied

  /// Whether integers are scaled in some of them, and taken as they are stored in others.
  bool scaled_in_part() const { return scaled > 0 && whole > 0; }
};

/// The counts of each of these names, over all files. Opens the files, by all ranks together. Collective; DataError as
/// RowSources'.
std::vector<PackingCount> count_packings(const DatasetSpec& spec, const std::vector<std::string>& names, Comm& comm);

/// For people: "packed int16: value * 0.01; -1 is missing" where that holds for all, else "3 of 5 files: packed ...",
/// the most frequent first. Of many, some are told.
std::vector<std::string> packing_texts(const PackingCount& count);

/// What attributes say that nothing applies: "'x': ScaleFactor = 0.01 is not applied; ...", "'x' in 3 of 5 files:
/// ...".
std::vector<std::string> not_applied_texts(const std::string& name, const PackingCount& count);

/// Adds a text that is not among these yet: much holds for several names, files and parts of a data set.
void add_once(std::vector<std::string>& texts, const std::string& text);

// One number far from all others, which occurs again and again: it may say that there is none.

/// Says so of the first channel of `numbers` of which some rows have such a number at an end of
/// their range, and what to do; "": there is none. `name`: the data set's. The same on every rank. Not collective.
std::string far_value_text(const Numbers& numbers, const std::string& name);

// What a configuration's data are, found by reading them once, and what is done to the numbers of their files.

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
