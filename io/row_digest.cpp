#include "io/row_digest.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf::h5 {
namespace {

constexpr Index read_at_once = Index{1} << 22;  // bytes

/// A consecutive piece of at most `most` bytes from the middle of a row.
Block middle(const std::vector<Index>& shape, Index row, Index element_bytes, Index most) {
  Block piece{std::vector<Index>(shape.size(), 0), shape, 0};
  piece.first[0] = row;
  piece.count[0] = 1;
  Index inner = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  for (std::size_t axis = 1; axis < shape.size() && inner > most; ++axis) {
    inner /= shape[axis];
    piece.count[axis] = std::clamp<Index>(most / std::max<Index>(inner, 1), 1, shape[axis]);
    piece.first[axis] = (shape[axis] - piece.count[axis]) / 2;
    inner *= piece.count[axis];
  }
  piece.elements = std::accumulate(piece.count.begin(), piece.count.end(), Index{1}, std::multiplies<>());
  return piece;
}

}  // namespace

void Digest::add(const void* bytes, std::size_t count) { sum_ = XXH3_64bits_withSeed(bytes, count, sum_); }

void Digest::add(const std::vector<Index>& numbers) {
  add(std::ssize(numbers));
  for (const Index number : numbers) add(number);
}

std::vector<Block> places(const std::vector<Index>& shape, Index element_bytes, const Glance& glance) {
  const Index count = shape.front();
  const Index row_bytes = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  if (count < 1 || row_bytes < 1) return {};
  if (count <= std::min(glance.whole / row_bytes, glance.rows))
    return blocks(shape, 0, count, read_at_once / element_bytes);
  const Index fit = std::min(glance.bytes / row_bytes, glance.rows);
  const Index run = std::clamp<Index>(fit, 1, std::max<Index>(count / glance.places, 1));
  std::vector<Block> found;
  for (Index place = 0; place < glance.places; ++place) {
    const auto share = static_cast<double>(place) / static_cast<double>(std::max<Index>(glance.places - 1, 1));
    const auto first = static_cast<Index>(share * static_cast<double>(count - run));
    if (row_bytes > glance.bytes)
      found.push_back(middle(shape, first, element_bytes, glance.bytes));
    else
      for (Block& block : blocks(shape, first, run, glance.bytes / element_bytes)) found.push_back(std::move(block));
  }
  return found;
}

void add_numbers(Digest& digest, const RowSource& rows, const Glance& glance) {
  const Index bytes = size_of(rows.type());
  std::vector<std::byte> values;
  for (const Block& place : places(rows.shape(), bytes, glance)) {
    values.resize(static_cast<std::size_t>(place.elements * bytes));
    const RowBox box{{place.first.begin() + 1, place.first.end()}, {place.count.begin() + 1, place.count.end()}};
    if (std::equal(box.count.begin(), box.count.end(), rows.shape().begin() + 1))
      rows.read(place.first[0], place.count[0], values.data());
    else
      rows.read(place.first[0], place.count[0], box, values.data());
    digest.add(values.data(), values.size());
  }
}

}  // namespace mrmf::h5
