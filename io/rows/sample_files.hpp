// Samples of a data set that is spread over files, read by any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/row_choice.hpp"
#include "io/rows/row_source.hpp"
#include "io/rows/sample_order.hpp"
#include "io/values/axis_order.hpp"
#include "io/values/element.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

/// A thread's buffers for intermediate values.
struct Scratch {
  std::vector<std::byte> as_stored, unordered, source, fine;
};

/// The number of files that hold some of these rows, or as many of them as are open at once where each has so many
/// data sets.
Index open_files(const DatasetShape& shape, Range rows, Index sources);

class SampleFiles {
 public:
  /// Opens the files that hold rows of `owned`, and keeps them open, as many as a process may; they share `most_cached`
  /// bytes for unpacked chunks. DataError when one cannot be opened.
  SampleFiles(const DatasetSpec& spec, const DatasetShape& shape, Range owned, Index most_cached = kMostCached);

  ElementType type() const { return type_; }  ///< type of the rows from read(): DatasetShape::type
  Index row_bytes() const { return row_bytes_; }
  const ReadPath& way() const { return way_; }  ///< direct when it is so for all files

  /// Reads owned samples, numbered within the whole data set, with their channels last. DataError (file, data set, row
  /// in that file) when one cannot be read, or holds infinity, or NaN where the specification does not say that these
  /// are missing numbers. On any thread, each with its own scratch.
  void read(Range samples, std::byte* to, Scratch& scratch) const;
  /// Reads a box of the positions of one owned sample. Errors as read()'s.
  void read_box(Index sample, const Box& box, std::byte* to, Scratch& scratch) const;

 private:
  /// A data set of a file. Its channels follow each other in a sample, or those of other data sets come between.
  struct Source {
    const RowSource& rows;
    Index channels, first_channel;
  };
  struct File {
    std::shared_ptr<const OpenRows> open;
    std::vector<Source> sources;
  };
  /// Rows of a file, and what is read of each.
  struct ReadPart {
    Range range;
    Shape sample;            // as read
    std::optional<Box> box;  // its positions; none: all
    Index positions() const { return range.count * product(sample.spatial); }
  };
  std::shared_ptr<const File> open(std::size_t number) const;
  void join_sources(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const;
  void read_run(const File& file, const ReadPart& rows, std::byte* to, Scratch& scratch) const;
  void read_source(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const;
  RowBox box_of(const RowSource& rows, const Box& box) const;
  void read_as_stored(const Source& source, const ReadPart& rows, std::byte* to) const;
  void read_converted(const Source& source, const ReadPart& rows, std::byte* to, Scratch& scratch) const;

  ElementType type_;
  Shape sample_;              // as read
  Extent whole_;              // positions of a sample in the files
  std::optional<Box> block_;  // those that are read; none: all
  Index row_bytes_;
  AxisOrder order_;
  StoredRows stored_;
  MissingRule missing_;
  NotFiniteRule not_finite_;
  bool mask_;  // is the last channel
  ReadPath way_;
  RowSources rows_;
  mutable LruCache<File> files_;
};

}  // namespace mrmf
