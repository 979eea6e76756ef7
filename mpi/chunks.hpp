// Cuts long spans into pieces: MPI counts elements in an int, and some transports count bytes in one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace mrmf {

/// Calls action(piece) on consecutive pieces of at most `limit` elements; never on an empty one.
template <typename T, typename Action>
void for_each_chunk(std::span<T> values, std::size_t limit, Action&& action) {
  for (std::size_t first = 0; first < values.size(); first += limit)
    action(values.subspan(first, std::min(limit, values.size() - first)));
}

}  // namespace mrmf
