#include "io/channels_first.hpp"

#include <algorithm>

namespace mrmf {

bool looks_channels_first(const Shape& sample) {
  if (sample.axes == 0 || sample.channels < kManyChannels) return false;
  const Index first = sample.spatial[static_cast<std::size_t>(3 - sample.axes)];
  if (sample.axes == 1) return first < sample.channels;
  const auto others = sample.spatial.end() - sample.axes + 1;
  const Index shortest = *std::min_element(others, sample.spatial.end());
  return first < shortest && first < sample.channels && 2 * sample.channels >= shortest;
}

}  // namespace mrmf
