#include "io/values/channel_map.hpp"

#include <cmath>

namespace mrmf {
namespace {

/// Calls change(value, channel) for every value, line by line of channels.
template <typename Change>
void for_each_channel(const ChannelMap& map, Index first, Span values, const Change& change) {
  const auto channels = static_cast<Index>(map.scale.size());
  Index channel = first % channels;
  for (float& value : values) {
    change(value, static_cast<std::size_t>(channel));
    if (++channel == channels) channel = 0;
  }
}

}  // namespace

namespace {

/// The same where numbers are missing.
void apply_and_fill(const ChannelMap& map, Index first, Span values) {
  const std::size_t numbers = map.fill.size(), line = numbers + (map.mask ? 1 : 0);
  std::size_t c = static_cast<std::size_t>(first) % line;
  for (float& value : values) {
    if (c < numbers) {
      if (std::isnan(value)) {
        value = map.fill[c];
      } else {
        if (map.log1p) value = std::log1p(value);
        if (!map.scale.empty()) value = static_cast<float>(double{value} * map.scale[c] + map.shift[c]);
      }
    }
    if (++c == line) c = 0;
  }
}

}  // namespace

// In double: a mean may be many times larger than what is left after it.
void apply(const ChannelMap& map, Index first, Span values) {
  if (!map.fill.empty()) return apply_and_fill(map, first, values);
  if (map.log1p)
    for (float& value : values) value = std::log1p(value);
  if (map.scale.empty()) return;
  if (map.scale.size() == 1) {
    const double scale = map.scale.front(), shift = map.shift.front();
    for (float& value : values) value = static_cast<float>(value * scale + shift);
    return;
  }
  for_each_channel(map, first, values, [&](float& value, std::size_t c) {
    value = static_cast<float>(double{value} * map.scale[c] + map.shift[c]);
  });
}

void undo(const ChannelMap& map, Index first, Span values) {
  if (!map.scale.empty())
    for_each_channel(map, first, values, [&](float& value, std::size_t c) {
      value = static_cast<float>((double{value} - map.shift[c]) / map.scale[c]);
    });
  if (map.log1p)
    for (float& value : values) value = std::expm1(value);
}

}  // namespace mrmf
