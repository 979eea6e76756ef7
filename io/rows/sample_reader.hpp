// Samples read from a data set's files: by any thread (SampleFiles), and ahead of their batch by threads of their own,
// with a cache of those that stay in memory (RowStream).
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "io/rows/split.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/element_type.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Samples of a data set that is spread over files, read by any thread.

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

// The rows of one data set at one resolution: some stay in memory, the others are read ahead of their batch, by threads
// of their own.

// Threads that read rows while others compute.

/// Neighbouring rows and where to read them to.
struct ReadTask {
  Range rows;
  std::byte* to = nullptr;
  std::uint64_t key = 0;  ///< the key of the epoch that they are for
};

class ReaderPool {
 public:
  /// Runs on the pool's threads; wait() rethrows its errors.
  using Read = std::function<void(const ReadTask&, Scratch&)>;

  /// Tasks submitted together. Must live until they are waited for or cancelled.
  struct ReadGroup {
    Index left = 0;
    Index failed_row = std::numeric_limits<Index>::max();
    std::exception_ptr error;  // error of the first row that failed, whichever thread was first
  };

  ReaderPool(int threads, Read read);  ///< FaultError when that many threads cannot be started
  ReaderPool(const ReaderPool&) = delete;
  ReaderPool& operator=(const ReaderPool&) = delete;
  ~ReaderPool();

  void submit(ReadGroup& group, const std::vector<ReadTask>& tasks);
  /// Waits for all of the group's tasks; throws the error of the first row that failed.
  void wait(ReadGroup& group);
  /// Drops tasks that have not begun and waits for the rest; drops their errors, too.
  void cancel();

 private:
  struct Job {
    ReadTask task;
    ReadGroup* group;
  };
  void work();

  Read read_;
  std::mutex mutex_;
  std::condition_variable work_there_, work_done_;
  std::deque<Job> jobs_;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;  // last: they use all of the above
};

/// Room for a fixed choice of rows, which stay in memory once read. The choice is the same in every epoch: in shuffled
/// epochs the row used last is as far from its next use as any other. The rows are spread evenly over the range, in
/// blocks of neighbours, so that every stretch of an epoch finds the same share of them here.
class RowCache {
 public:
  /// Room for at most `capacity` of these rows; touches no memory yet.
  RowCache(Range rows, Index row_bytes, Index capacity);

  Index kept() const { return kept_; }  ///< rows that have a buffer
  /// A row's buffer; null if it has none.
  std::byte* buffer_of(Index row) const;
  bool resident(Index row) const { return resident_[static_cast<std::size_t>(row - rows_.first)]; }
  void mark_resident(Index row) { resident_[static_cast<std::size_t>(row - rows_.first)] = true; }

 private:
  Index slot(Index block) const;  // -1: none

  Range rows_;
  Index row_bytes_, block_rows_, blocks_, kept_blocks_, kept_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<bool> resident_;
};

/// How much memory a rank has, and what for.
struct StreamBudget {
  Index rows = 0, row_bytes = 0;  ///< rows and row bytes of the rank's part of the data, as kept in memory
  Index batch_rows = 1;           ///< most rows of one batch
  Index scratch = 0;              ///< bytes that the readers need besides the rows
  Index bytes = 0;                ///< bytes that may be used
  bool stay = true;               ///< whether rows are the same in every epoch, and may stay in memory
};
struct StreamMemory {
  Index least = 0;    ///< bytes needed at least: one batch and the next
  Index batches = 0;  ///< in memory at once; 0: all rows stay, and each is read into its buffer
  Index cached = 0;   ///< rows that stay in memory
  Index bytes = 0;    ///< bytes of these and the readers' scratch
};
StreamMemory budget_stream(const StreamBudget& budget);

class RowStream {
 public:
  struct Settings {
    Range rows;
    Index row_bytes = 0;
    StreamMemory plan;
    Index task_rows = 1;  ///< most neighbours read at once
    int threads = 1;
  };
  /// `read` makes rows from the files, on the threads.
  RowStream(const Settings& settings, ReaderPool::Read read);
  /// Every row has a buffer, which the caller fills itself.
  RowStream(Range rows, Index row_bytes);
  ~RowStream();

  std::byte* buffer_of(Index row) { return cache_.buffer_of(row); }
  Index kept() const { return cache_.kept(); }

  /// Reads every row that has a buffer. Throws the error of the first row that failed.
  void load_all();
  void mark_all();

  /// Announces the batches of the coming fetch() calls, in order. Starts reading them and forgets earlier expectations.
  void expect(const EpochOrder& order);
  /// Where each of these rows is, valid until done(). Throws the errors of reading them. A batch that was not expected
  /// is read at once.
  const std::vector<const std::byte*>& fetch(std::span<const std::int64_t> ids);
  /// Ends the use of the last fetch's rows; their memory serves a later batch.
  void done();

 private:
  struct Batch;
  bool expected(std::span<const std::int64_t> ids) const;
  void forget();
  void read_ahead();
  void begin(Batch& batch, std::span<const std::int64_t> ids);
  void add_task(Range rows, std::byte* to);

  Settings settings_;
  RowCache cache_;
  EpochOrder order_;
  std::uint64_t key_ = 0;                // the last order's key
  std::size_t begun_ = 0, fetched_ = 0;  // batches of the order
  std::vector<std::unique_ptr<Batch>> ring_;
  std::vector<ReadTask> tasks_;
  std::unique_ptr<ReaderPool> pool_;  // last: its threads use all of the above
};

}  // namespace mrmf
