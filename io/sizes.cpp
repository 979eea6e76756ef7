#include "io/sizes.hpp"

#include <algorithm>
#include <limits>

namespace mrmf {

Index saturated_product(Index a, Index b) {
  return b > 0 && a > std::numeric_limits<Index>::max() / b ? std::numeric_limits<Index>::max() : a * b;
}

std::string shape_text(const std::vector<Index>& shape) {
  std::string text;
  for (const Index size : shape)  // as the file has it, also where that is no Index
    text += (text.empty() ? "" : ", ") + std::to_string(static_cast<std::uint64_t>(size));
  return "(" + text + ")";
}

void require_countable(const std::vector<Index>& shape, const std::string& what) {
  Index elements = 1, row = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    elements = saturated_product(elements, std::max<Index>(shape[axis], 0));
    if (axis > 0) row = saturated_product(row, std::max<Index>(shape[axis], 0));
  }
  const bool negative = std::ranges::any_of(shape, [](Index size) { return size < 0; });
  if (!negative && elements <= kMostElements && row <= kMostRowElements) return;
  throw DataError(what + " has shape " + shape_text(shape) + ", which is more than " +
                  std::to_string(kMostRowElements) + " numbers a row or " + std::to_string(kMostElements) +
                  " in all; is the file damaged?");
}

}  // namespace mrmf
