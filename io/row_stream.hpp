// The rows of one data set at one resolution: some stay in memory, the others are read ahead of their batch.
#pragma once

#include <memory>
#include <vector>

#include "io/order.hpp"
#include "io/reader_pool.hpp"

namespace mrmf {

/// Room for a fixed choice of rows, which stay in memory once they were read: the same in every epoch, for in shuffled
/// epochs whatever was used last is as far from its next use as anything else. They are spread evenly over the range,
/// in blocks of neighbours, so that every stretch of an epoch finds the same share of its rows here.
class RowCache {
 public:
  /// For about `capacity` of these rows, at most; no memory is touched yet.
  RowCache(Range rows, Index row_bytes, Index capacity);

  Index kept() const { return kept_; }  ///< rows that have a place
  /// Where a row goes; null: it has no place here.
  std::byte* place(Index row) const;
  bool resident(Index row) const { return resident_[static_cast<std::size_t>(row - rows_.first)]; }
  void mark_resident(Index row) { resident_[static_cast<std::size_t>(row - rows_.first)] = true; }

 private:
  Index slot(Index block) const;  // -1: none

  Range rows_;
  Index row_bytes_, block_rows_, blocks_, kept_blocks_, kept_ = 0;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<bool> resident_;
};

/// What a rank's memory is spent on.
struct StreamBudget {
  Index rows = 0, row_bytes = 0;  ///< of the rank's part of the data, in the form it is kept in
  Index batch_rows = 1;           ///< the most that one batch has
  Index scratch = 0;              ///< bytes that the readers need beside what they deliver
  Index bytes = 0;                ///< that may be used
};
struct StreamPlan {
  Index least = 0;    ///< bytes without which it cannot be: one batch and the next
  Index batches = 0;  ///< in memory at once; 0: all rows stay, and each is read into its place
  Index cached = 0;   ///< rows that stay in memory
  Index bytes = 0;    ///< that these take with the readers' scratch
};
StreamPlan plan_stream(const StreamBudget& budget);

class RowStream {
 public:
  struct Settings {
    Range rows;
    Index row_bytes = 0;
    StreamPlan plan;
    Index task_rows = 1;  ///< neighbours that are read at once, at most
    int threads = 1;
  };
  /// `read` makes rows from the files; runs on the threads.
  RowStream(const Settings& settings, ReaderPool::Read read);
  /// All rows have a place, and the caller fills place() itself.
  RowStream(Range rows, Index row_bytes);
  ~RowStream();

  std::byte* place(Index row) { return cache_.place(row); }
  Index kept() const { return cache_.kept(); }

  /// Reads every row that has a place. Throws the error of the first row that failed.
  void load_all();
  void mark_all();

  /// The batches that fetch() will ask for, in this order; reading begins. What was expected before is forgotten.
  void expect(const EpochOrder& order);
  /// Where each of these rows is, until done(). Throws what reading them threw. A batch that was not expected is read
  /// at once.
  const std::vector<const std::byte*>& fetch(std::span<const std::int64_t> ids);
  /// The rows of the last fetch are no longer needed: their memory serves a later batch.
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
  std::size_t begun_ = 0, fetched_ = 0;  // batches of the order
  std::vector<std::unique_ptr<Batch>> ring_;
  std::vector<ReadTask> tasks_;
  std::unique_ptr<ReaderPool> pool_;  // last: its threads use all of the above
};

}  // namespace mrmf
