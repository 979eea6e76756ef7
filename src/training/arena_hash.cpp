#include "src/training/arena_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace mrmf {

std::uint64_t arena_hash(Backend& backend, ConstSpan values, std::uint64_t seed) {
  constexpr std::size_t at_once = std::size_t{1} << 20;
  std::vector<float> piece(std::min(values.size(), at_once));
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, seed);
  for (std::size_t first = 0; first < values.size(); first += piece.size()) {
    const Span read = Span(piece).first(std::min(piece.size(), values.size() - first));
    backend.read(values.subspan(first, read.size()), read);
    XXH3_64bits_update(&state, read.data(), read.size_bytes());
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace mrmf
