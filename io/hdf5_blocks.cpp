#include "io/hdf5_blocks.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

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

}  // namespace

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
