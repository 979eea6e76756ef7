// What is remembered of data files, so that later it can be told whether they still hold the same numbers: size and
// time of every file, and checksums of some rows of some of them; and how such checksums are made.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5/rows.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"

namespace mrmf::h5 {

// Checksums of a little of a data set's numbers, by which its contents are told from others. Private to io/.

/// A checksum of all that was added, in that order.
class Digest {
 public:
  void add(const void* bytes, std::size_t count);
  void add(std::string_view text) { add(text.data(), text.size()); }
  void add(Index number) { add(&number, sizeof number); }
  void add(const std::vector<Index>& numbers);
  std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

/// How much of a data set is looked at.
struct Glance {
  Index whole = 0;               ///< a data set of at most so many bytes is read whole
  Index block_count = 4;         ///< blocks that are read of a larger one, the first and the last rows among them,
  Index bytes = Index{1} << 16;  ///< each of as many whole rows as fit, or a piece from the middle of a longer one
  /// At most so many rows in one block, and in all that is read whole: each may take long to open.
  Index rows = std::numeric_limits<Index>::max();
};

/// The boxes that a glance at a data set of this shape reads. It follows from the shape, not from how the data set is
/// stored, so that the boxes of a copy in other chunks are the same.
std::vector<ContiguousBox> glance_blocks(const std::vector<Index>& shape, Index element_bytes, const Glance& glance);

/// What of numbers is added.
enum class NumberDigest {
  stored,  ///< as they are in this machine's memory
  values   ///< their values, whatever type they have: 0.5 is the same as float32 and as float64
};

/// Adds the numbers that a glance reads. DataError when they cannot be read.
void add_numbers(Digest& digest, const RowSource& rows, const Glance& glance, NumberDigest what);

}  // namespace mrmf::h5

namespace mrmf {

/// A file, and the data sets in it that are used.
struct UsedFile {
  std::string path;
  std::vector<std::string> datasets;
  RowsBy rows = RowsBy::axis;
  std::string groups{};  ///< as DatasetSpec's
  PackingRule packing = PackingRule::apply;
};

/// The files of training and validation, in the order of their lists. Files that both name stand there once.
std::vector<UsedFile> used_files(const DatasetSpec& train, const DatasetSpec& validation);

/// What is remembered of one data set of one file.
struct ArrayRecord {
  Index file = 0;  ///< by its position
  std::string name;
  std::vector<Index> shape;
  std::uint64_t sum = 0;  ///< checksum of the values of some rows' numbers, or of words; of all rows if it is small
  std::string type{};     ///< in the file: the same numbers may be stored in another
  bool same_contents(const ArrayRecord& other) const { return shape == other.shape && sum == other.sum; }
  bool operator==(const ArrayRecord&) const = default;
};

struct DataRecord {
  std::vector<Index> bytes;            ///< bytes of each file
  std::vector<std::int64_t> modified;  ///< when each was written last, in seconds since 1970
  std::vector<ArrayRecord> arrays;     ///< arrays of the files that were looked into, a few dozen at most
  bool operator==(const DataRecord&) const = default;
};

/// Looks at the files' sizes and times, and reads at most some 64 MB of each kind of data set: which rows follows from
/// the number of files and from the shapes alone. On one rank. DataError when a file or its numbers cannot be read.
DataRecord record_of(const std::vector<UsedFile>& files);

}  // namespace mrmf
