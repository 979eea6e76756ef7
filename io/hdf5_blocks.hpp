// Cutting a range of rows into transfers of limited size.
#pragma once

#include <functional>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf::h5 {

/// A box of a data set that is one consecutive run of elements.
struct Block {
  std::vector<Index> first, count;  ///< per axis
  Index elements = 0;
};

/// Rows [first, first + count) of a data set of this shape, in storage order, as blocks of at most `limit` elements.
/// A row that is larger by itself is cut along its own first axis, and so on.
std::vector<Block> blocks(const std::vector<Index>& shape, Index first, Index count, Index limit);

/// The same for a box, whose elements are one consecutive run: one index on the first axes, a range on the next, all of
/// the rest.
std::vector<Block> blocks(const Block& box, Index limit);

/// How many chunks a box has a part of; the largest Index where there are more.
Index chunks_of(const Block& box, const std::vector<Index>& chunk);

/// Calls visit(part) for boxes that together are `box`, cut along chunks' borders so that each has a part of at most
/// `most` chunks. They are no consecutive runs of elements.
void for_each_chunk_group(const Block& box, const std::vector<Index>& chunk, Index most,
                          const std::function<void(const Block&)>& visit);

}  // namespace mrmf::h5
