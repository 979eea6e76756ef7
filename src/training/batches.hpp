// The batches of a split at one resolution, where training steps find them: gathered on the host and copied one by one,
// or picked by the step itself from a table that a device holds whole.
#pragma once

#include <memory>

#include "src/data/data.hpp"

namespace mrmf {

class Batches {
 public:
  /// For batches of at most `most_rows`. The split's store must hold the resolution; keeps references to both.
  Batches(Backend& backend, const Split& split, const Extent& resolution, Index most_rows);

  /// The batches that load() will ask for, in this order: streamed samples are then read ahead.
  void expect(const EpochOrder& order);
  /// Brings the samples of these ids: before Backend::begin of their step. Streamed: DataError on this rank alone.
  void load(std::span<const std::int64_t> ids);
  /// They are the step's ids. Part of a recorded step.
  Feed::Batch batch(const Step& step);

 private:
  void fill_table(Index most_rows);
  void gather(std::span<const std::int64_t> ids, const Feed::HostBatch& into);

  const Split* split_;
  Extent resolution_;
  std::unique_ptr<SampleTable> table_;
  std::unique_ptr<Feed> feed_;  // where there is no table
  Extent gathered_;             // the resolution that the host makes: the feed may average further
  Feed::Batch loaded_;
};

}  // namespace mrmf
