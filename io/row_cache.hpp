// Rows that stay in memory once they were read.
#pragma once

#include <memory>
#include <vector>

#include "io/order.hpp"

namespace mrmf {

/// Room for a fixed choice of rows: the same in every epoch, for in shuffled epochs whatever was used last is as far
/// from its next use as anything else. They are spread evenly over the range, in blocks of neighbours, so that every
/// stretch of an epoch finds the same share of its rows here.
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

}  // namespace mrmf
