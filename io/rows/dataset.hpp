// Description of a data set: its files, the names in them, the shape that their headers give it, and in which file each
// of its samples is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/sample_order.hpp"
#include "io/rows/split.hpp"
#include "io/values/class_names.hpp"
#include "io/values/element_type.hpp"
#include "io/values/packing_units.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// When lower resolutions are averaged: once, and kept, or from the original for every batch. Both give the same
/// numbers, bit for bit.
enum class Averaging { load, epoch };

/// How a file's (T, C) sample is seen (the layout trap).
/// as_stored: positions by channels. reinterpret: the flat buffer read as (C, T), as the reference Neuron Inverter code
/// feeds it to its convolutions. Averaging happens before either.
enum class SampleLayout { as_stored, reinterpret };

/// What to do about rows that were never written, or whose virtual source is missing.
/// refuse: DataError. fill: use the file's fill value, as HDF5 does.
enum class MissingRule { refuse, fill };

/// What to do about rows with NaN or infinity among their samples or labels. refuse: DataError. skip: leave them out.
/// fill: NaN in samples is a missing number, which stays NaN until samples are in the network's units (ChannelMap);
/// infinity, and NaN in labels, are refused.
enum class NotFiniteRule { refuse, skip, fill };

/// What one sample is in the files. axis: one step along the first axis of its data sets. files: all that a file's data
/// sets hold. groups: all that those of a group hold; a file has many of them.
enum class RowsBy { axis, files, groups };

/// What labels are. numbers: any. probabilities: from 0 to 1, of yes or no. classes: whole numbers from 0 on.
enum class LabelKind { numbers, probabilities, classes };

/// What becomes of classes of neighbours that are taken together at a lower resolution: the share of each class, or the
/// class that most have (the lowest of equals).
enum class CoarseLabels { shares, majority };

struct LabelForm {
  LabelKind kind = LabelKind::numbers;
  Index classes = 0;              ///< classes: how many there are; 0: not known yet
  std::optional<Index> ignore{};  ///< probabilities and classes: a value that says that there is no label
  CoarseLabels coarse = CoarseLabels::shares;
  /// Classes: the labels that stand for class 0, 1, ..., numbers as texts, or words; empty: the classes' numbers.
  std::vector<std::string> values{};
  bool named = false;  ///< the user says what classes or outputs are called, whatever files call them
  bool operator==(const LabelForm&) const = default;
};

struct DatasetSpec {
  std::vector<std::string> files;  ///< read as one data set: the rows of one after those of the other
  /// Names as in io/rows/row_source_and_reader.hpp. Labels empty: there are none (prediction).
  std::string samples, labels;
  SampleLayout layout = SampleLayout::as_stored;
  MissingRule missing = MissingRule::refuse;
  NotFiniteRule not_finite = NotFiniteRule::refuse;
  std::string axes{};  ///< axes of samples as they are stored, such as "n t c" (io/values/axes_and_channel_map.hpp);
                       ///< empty: channels last
  RowChoice choice{};
  LabelForm form{};
  PackingRule packing = PackingRule::apply;
  bool mask = false;  ///< samples have one more channel, the last: 1 where all others are there, 0 where one is missing
  std::vector<std::string> more_samples{};  ///< further data sets, whose channels follow those of `samples`
  std::vector<std::string> more_labels{};   ///< further data sets, whose numbers follow those of the labels
  RowsBy rows = RowsBy::axis;
  std::string groups{};  ///< RowsBy::groups: the pattern of their names, such as "sim_*" (groups_of())
  RowPiece piece{};      ///< which part of the chosen rows is taken
  bool operator==(const DatasetSpec&) const = default;

  std::vector<std::string> sample_names() const { return names_of(samples, more_samples); }
  std::vector<std::string> label_names() const { return names_of(labels, more_labels); }  ///< none: empty
  void name_samples(const std::vector<std::string>& names) { set(names, samples, more_samples); }
  void name_labels(const std::vector<std::string>& names) { set(names, labels, more_labels); }
  std::string labels_text() const {  ///< "a, b", for messages
    std::string text = labels;
    for (const std::string& name : more_labels) text += ", " + name;
    return text;
  }

 private:
  static void set(const std::vector<std::string>& names, std::string& first, std::vector<std::string>& more) {
    first = names.empty() ? "" : names.front();
    more.assign(names.begin() + (names.empty() ? 0 : 1), names.end());
  }
  static std::vector<std::string> names_of(const std::string& first, const std::vector<std::string>& more) {
    std::vector<std::string> names;
    if (!first.empty()) names.push_back(first);
    names.insert(names.end(), more.begin(), more.end());
    return names;
  }
};

/// Bytes that HDF5 needs besides the rows it reads; 0 for data sets that are not chunked.
struct ChunkMemory {
  Index cache = 0;      ///< unpacked chunks that each open data set keeps, if it may
  Index unpacking = 0;  ///< while a chunk is unpacked
  bool operator==(const ChunkMemory&) const = default;
};
constexpr Index kMostCached = Index{1} << 28;  ///< bytes of unpacked chunks in all open data sets together

/// How a data set is opened.
struct RowsOpening {
  Index most_cached = kMostCached;  ///< bytes of unpacked chunks
  bool whole = false;  ///< all of it is one row, with an axis of 1 before its own; else along its first axis
  PackingRule packing = PackingRule::apply;
};

/// The groups of a file of which each is a row, by name. Copies share them.
struct GroupsAsRows {
  std::shared_ptr<const std::vector<std::string>> names;
  /// By name of an array or attribute, the type that holds its numbers in all groups; where these are of one type,
  /// none.
  std::map<std::string, ElementType> types{};
  bool operator==(const GroupsAsRows& other) const {
    return types == other.types && (names == other.names || (names && other.names && *names == *other.names));
  }
};

class RowHeaderCache;

/// What this rank remembers of files that it has opened (io/rows/row_source_and_reader.hpp). It is no part of what a
/// data set is: all are equal.
struct RememberedRows {
  std::shared_ptr<RowHeaderCache> memory;
  bool operator==(const RememberedRows&) const { return true; }
};

/// Labels of several data sets that differ in their positions, such as scalars and images: each one's are taken as a
/// list of numbers, one after the other. The first ones, up to the first that has positions, are so many sets and
/// numbers.
struct MixedLabels {
  Index sets = 0, numbers = 0;
  Index all = 0;  ///< numbers of all sets
  bool any() const { return all > 0; }
  bool operator==(const MixedLabels&) const = default;
};

/// A data set's contents, read from the files' headers by all ranks together.
struct DatasetShape {
  Index samples = 0;
  Shape sample;                             ///< at the original resolution, channels-last, with the mask; n = 0
  Shape label{.channels = 0};               ///< shape of one sample's labels, n = 0; classes have one channel; none: 0
  std::vector<Index> file_samples;          ///< samples in each file, in the order of the list
  ElementType type = ElementType::float32;  ///< in memory: the files' own; float32 for float64, packed or mixed types
  ChunkMemory chunks{};                     ///< the largest of any file
  Index converted = 0;                      ///< most bytes per element in a file that does not hold `type`; else 0
  ElementType label_type = ElementType::float32;  ///< type of labels in memory
  std::vector<Index> rows{};       ///< where not all rows are samples: those that are, over all files, ascending
  std::vector<Index> file_rows{};  ///< where not all rows are samples: all rows of each file
  std::vector<Index> skipped{};  ///< rows of the choice that are left out, because not all of their numbers are finite
  std::string unused{};          ///< what the choice leaves out of both parts, or makes of groups and folds, for people
  Index one_hot = 0;  ///< classes that the files hold as rows of so many numbers, one of which is 1; 0: as one number
  /// The positions of samples that are read, of the original resolution; none: all. (Ranks that share their samples.)
  std::optional<Box> block{};
  std::vector<Index>
      elsewhere{};  ///< files with samples that may lie in other files (io/rows/row_source_and_reader.hpp), ascending
  std::vector<GroupsAsRows> groups{};  ///< RowsBy::groups: of each file
  LabelNames names{};                  ///< what files call the numbers of labels
  std::vector<std::string>
      units{};  ///< units of samples and labels, in the order of their names; "": nothing says them
  std::vector<std::string>
      not_applied{};    ///< what attributes say that nothing applies (Packing::not_applied), a line for each name
  MixedLabels mixed{};  ///< none: labels have the positions of samples, or none of them any
  RememberedRows remembered{};  ///< copies share it
  /// The shape of what is read of a sample.
  Shape read_sample() const {
    Shape part = sample;
    if (block) part.spatial = block->count;
    return part;
  }
  bool operator==(const DatasetShape&) const = default;
};

/// Samples are (n, F) for flat features, else (n, W, C), (n, H, W, C) or (n, D, H, W, C). Labels are (n) or (n,
/// outputs) or, with as many axes as the samples, (n, ..., outputs); a single output, and classes, need no last axis.
/// Collective. Checks that every file is present, HDF5 and whole, and has both data sets with readable types. Sample
/// shapes must agree, with as many labels as samples, at least one sample, and no missing rows unless allowed.
/// Otherwise DataError on every rank, naming file and data set.
/// Rows that the spec's choice leaves out are no samples. With NotFiniteRule::skip all others are read once, by all
/// ranks together, to find those that are to be skipped.
DatasetShape inspect_dataset(const DatasetSpec& spec, Comm& comm);

/// A data set as inspect_dataset() has found it.
struct FoundDataset {
  const DatasetSpec& spec;
  const DatasetShape& shape;
};

/// Whether both are of the same names in the same files, opened alike: what headers say of one, they say of the other.
/// The parts of a split are.
bool have_same_headers(const DatasetSpec& one, const DatasetSpec& other);

/// inspect_dataset() of a second data set. What has been read of its files for the first is not read again.
DatasetShape inspect_dataset(const DatasetSpec& spec, const FoundDataset& first, Comm& comm);

/// Without some of its rows (over all files, ascending), which become its skipped ones. DataError when none is left.
DatasetShape without_rows(DatasetShape shape, const DatasetSpec& spec, const std::vector<Index>& rows);

/// The rows that were skipped, a text for each file that has some: "a.h5: 3, 7-9".
std::vector<std::string> skipped_texts(const DatasetSpec& spec, const DatasetShape& shape);
/// Any rows, given over all files in ascending order, as a text for each file that has some.
std::vector<std::string> rows_texts(const DatasetSpec& spec, const DatasetShape& shape, const std::vector<Index>& rows);

/// Collective. DataError, naming file and data set, when ranks see different contents under the same name, as on nodes
/// with their own file systems. Looks at the headers of all files, and at a little of a few rows of each: every rank,
/// or, of many files, two ranks at each. `shape` is what inspect_dataset() has found; null: not known.
void require_same_data(const DatasetSpec& spec, const DatasetShape* shape, Comm& comm);

// What the headers of a data set's files say, read by all ranks together. Private to io/.

/// The shape of a data set, every row a sample. Each file is opened once, by one of the ranks. Collective. Throws as
/// inspect_dataset(): of several files that are wrong, or unlike the first, the first in the list is named, on every
/// rank. Files of which enough is `remembered` are opened without a look at their headers.
DatasetShape inspect_headers(const DatasetSpec& spec, Comm& comm, const RememberedRows& remembered = {});

// From the numbers of a data set's samples to rows of its files.

/// Consecutive samples that are consecutive rows of one file.
struct RowRun {
  std::size_t file = 0;  ///< in the data set's list
  Range rows;            ///< rows of that file
};

class StoredRows {
 public:
  explicit StoredRows(const DatasetShape& shape);

  /// Calls visit(run) for the runs that these samples are, in their order.
  void for_each_run(Range samples, const std::function<void(const RowRun&)>& visit) const;
  /// The run of this sample alone.
  RowRun at(Index sample) const;

  /// Rows of the files, of which not all need be samples.
  Index rows_of_file(std::size_t file) const { return starts_[file + 1] - starts_[file]; }
  Index all() const { return starts_.back(); }

 private:
  std::vector<Index> starts_;  // starts of each file's rows, and the end of the last
  std::vector<Index> rows_;    // rows of each sample, over all files; empty: the same number
};

}  // namespace mrmf
