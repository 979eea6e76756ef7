// How batches get from the host into a backend's memory.
#pragma once

#include <cstdint>

#include "kernels/step.hpp"

namespace mrmf {

/// Where the host puts the samples and targets of the coming batch, and the same in the backend's memory. A device
/// backend copies one batch while it computes on the one before.
class Feed {
 public:
  struct HostBatch {
    Span x, targets;  ///< float32, (rows, spatial..., channels) and (rows, outputs)
  };
  struct Batch {
    ConstTensor x, targets;
  };
  virtual ~Feed() = default;
  virtual HostBatch host(Index rows) = 0;  ///< memory to fill; waits until it is free
  virtual Batch submit(Index rows) = 0;    ///< of what was filled; valid until the next submit
};

/// A data set in the backend's memory, of which steps pick their rows themselves.
class SampleTable {
 public:
  struct Settings {
    Shape samples;  ///< n: rows of the table
    Index outputs = 0;
    std::int64_t first = 0;  ///< id of row 0
    Index most_rows = 0;     ///< of a batch
  };
  virtual ~SampleTable() = default;
  /// Rows [row, row + n) from the host's memory, as Feed::HostBatch has them.
  virtual void fill(Index row, const Feed::HostBatch& rows) = 0;
  /// The rows of the step's ids; part of a recorded step. Valid until the next gather.
  virtual Feed::Batch gather(const Step& step) = 0;
};

}  // namespace mrmf
