#include "io/hdf5_blocks.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "io/sizes.hpp"

namespace mrmf::h5 {
namespace {

/// Appends the part of `box` that lies along `axis`, where all axes before it have count 1.
void append(const Block& box, std::size_t axis, Index limit, std::vector<Block>& result) {
  const Index inner = std::accumulate(box.count.begin() + static_cast<std::ptrdiff_t>(axis) + 1, box.count.end(),
                                      Index{1}, std::multiplies<>());
  const bool fits = inner <= limit || axis + 1 == box.count.size();
  const Index step = fits ? std::max<Index>(limit / inner, 1) : 1;
  for (Index done = 0; done < box.count[axis]; done += step) {
    Block part = box;
    part.first[axis] += done;
    part.count[axis] = std::min(step, box.count[axis] - done);
    part.elements = part.count[axis] * inner;
    if (fits) {
      result.push_back(std::move(part));
    } else {
      append(part, axis + 1, limit, result);
    }
  }
}

Index chunks_along(Index first, Index count, Index chunk) {
  return count == 0 ? 0 : (first + count - 1) / chunk - first / chunk + 1;
}

}  // namespace

Index chunks_of(const Block& box, const std::vector<Index>& chunk) {
  Index all = 1;
  for (std::size_t axis = 0; axis < chunk.size(); ++axis)
    all = saturated_product(all, chunks_along(box.first[axis], box.count[axis], chunk[axis]));
  return all;
}

void for_each_chunk_group(const Block& box, const std::vector<Index>& chunk, Index most,
                          const std::function<void(const Block&)>& visit) {
  const std::size_t axes = chunk.size();
  std::vector<Index> step(axes);  // chunks per group along each axis, from the last axis on
  for (std::size_t axis = axes; axis-- > 0;) {
    step[axis] =
        std::clamp<Index>(chunks_along(box.first[axis], box.count[axis], chunk[axis]), 1, std::max<Index>(most, 1));
    most /= step[axis];
  }
  const auto set = [&](Block& part, std::size_t axis, Index from) {
    const Index end = box.first[axis] + box.count[axis];
    part.first[axis] = from;
    part.count[axis] = std::min((from / chunk[axis] + step[axis]) * chunk[axis], end) - from;
  };
  Block part = box;
  for (std::size_t axis = 0; axis < axes; ++axis) set(part, axis, box.first[axis]);
  for (;;) {
    part.elements = std::accumulate(part.count.begin(), part.count.end(), Index{1}, std::multiplies<>());
    visit(part);
    std::size_t axis = axes;
    while (axis-- > 0) {
      const Index next = part.first[axis] + part.count[axis];
      if (next < box.first[axis] + box.count[axis]) {
        set(part, axis, next);
        break;
      }
      set(part, axis, box.first[axis]);
    }
    if (axis == static_cast<std::size_t>(-1)) return;
  }
}

std::vector<Block> blocks(const std::vector<Index>& shape, Index first, Index count, Index limit) {
  Block all{std::vector<Index>(shape.size(), 0), shape, 0};
  all.first[0] = first;
  all.count[0] = count;
  return blocks(all, limit);
}

std::vector<Block> blocks(const Block& box, Index limit) {
  std::vector<Block> result;
  if (std::find(box.count.begin(), box.count.end(), 0) == box.count.end()) append(box, 0, limit, result);
  return result;
}

}  // namespace mrmf::h5
