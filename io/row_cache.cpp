#include "io/row_cache.hpp"

#include <algorithm>

namespace mrmf {
namespace {

constexpr Index block_bytes = Index{1} << 22;  // neighbours read together: long enough for a disk

}  // namespace

RowCache::RowCache(Range rows, Index row_bytes, Index capacity)
    : rows_(rows), row_bytes_(row_bytes), resident_(static_cast<std::size_t>(rows.count), false) {
  const bool all = capacity >= rows.count;
  block_rows_ = std::clamp<Index>(block_bytes / std::max<Index>(row_bytes, 1), 1, std::max<Index>(capacity, 1));
  blocks_ = (rows.count + block_rows_ - 1) / block_rows_;
  kept_blocks_ = all ? blocks_ : capacity / block_rows_;
  for (Index block = 0; block < blocks_; ++block)
    if (slot(block) >= 0) kept_ += std::min(block_rows_, rows.count - block * block_rows_);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(
      static_cast<std::size_t>((all ? rows.count : kept_blocks_ * block_rows_) * row_bytes));
}

// Of the blocks, as many as have a place, evenly spread (as a line is drawn on a grid).
Index RowCache::slot(Index block) const {
  const Index before = block * kept_blocks_ / blocks_;
  return (block + 1) * kept_blocks_ / blocks_ > before ? before : -1;
}

std::byte* RowCache::place(Index row) const {
  const Index at = row - rows_.first, here = slot(at / block_rows_);
  return here < 0 ? nullptr : memory_.get() + (here * block_rows_ + at % block_rows_) * row_bytes_;
}

}  // namespace mrmf
