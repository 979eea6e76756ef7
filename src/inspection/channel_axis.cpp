// Which axis of samples holds channels: as the file says by names and coordinates of the axes, else by their lengths.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/hdf5/file.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/guess_parts.hpp"

namespace mrmf {
namespace {

constexpr Index kFewChannels = 16;       // an axis as short as this may be one of channels
constexpr Index kManyShort = 256;        // and so may one as short as this, if positions are many times more
constexpr Index kFar = 8, kApart = 2;    // times more: so many are positions; so many may be
constexpr std::size_t kMostSpatial = 3;  // axes of them that samples have

/// What a file says of the axes of samples, without that of the rows.
class ToldAxes {
 public:
  ToldAxes(std::vector<Index> sizes, std::vector<NamedAxis> axes) : sizes_(std::move(sizes)), axes_(std::move(axes)) {
    axes_.resize(sizes_.size());
  }

  bool tell() const {
    return std::ranges::any_of(axes_, [](const NamedAxis& axis) { return axis.kind != AxisKind::unknown; });
  }
  bool is(std::size_t axis, AxisKind kind) const { return axes_[axis].kind == kind; }
  const std::string& name(std::size_t axis) const { return axes_[axis].name; }
  /// The shortest that is not called horizontal; none where all are.
  std::optional<std::size_t> shortest() const {
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis)
      if (!is(axis, AxisKind::horizontal) && (!found || sizes_[axis] < sizes_[*found])) found = axis;
    return found;
  }
  std::optional<std::size_t> called_channels() const {
    const auto found = std::ranges::find(axes_, AxisKind::channels, &NamedAxis::kind);
    return found == axes_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - axes_.begin()));
  }
  /// Whether an axis is so much shorter than all others that it rather holds channels.
  bool is_short(std::size_t axis) const {
    Index least = 0;  // of the others
    for (std::size_t other = 0; other < sizes_.size(); ++other)
      if (other != axis && (least == 0 || sizes_[other] < least)) least = sizes_[other];
    const Index size = sizes_[axis];
    return (size <= kFewChannels && size < least) ||
           (is(axis, AxisKind::unknown) && size <= kManyShort && least >= kFar * size);
  }
  /// "the file calls its axes 'level', (no name)"
  std::string text() const {
    std::vector<std::string> names;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis)
      names.push_back(name(axis).empty() ? "(no name)" : "'" + name(axis) + "'");
    return fmt::format("the file calls {} {}", names.size() == 1 ? "its axis" : "its axes", fmt::join(names, ", "));
  }

 private:
  std::vector<Index> sizes_;
  std::vector<NamedAxis> axes_;
};

// data.axes of so many axes, of which one holds the channels; none: all are positions.
std::string order_text(std::size_t axes, std::optional<std::size_t> channel) {
  const std::string names[] = {"x", "y", "z"};
  std::size_t position = axes - (channel ? 1 : 0);
  std::string order = "n";
  for (std::size_t axis = 0; axis < axes; ++axis) order += " " + (axis == channel ? "c" : names[--position]);
  return order;
}

// As the file tells; none where it does not.
std::optional<std::string> axes_as_told(const std::string& samples, const ToldAxes& told, std::size_t axes,
                                        std::vector<std::string>& reasons) {
  const auto say = [&](const std::string& what, std::optional<std::size_t> channel, const std::string& other = "") {
    reasons.push_back(fmt::format("{} is taken for samples {}: {}{}", samples, what, told.text(), other));
    return channel && *channel + 1 == axes ? "" : order_text(axes, channel);
  };
  const auto with_channels = [&](std::size_t axis) {
    return axis == 0 ? "with channels first" : axis + 1 == axes ? "with channels last" : "with channels in between";
  };
  const std::optional<std::size_t> called = told.called_channels(), shortest = told.shortest();
  if (axes == 1 && called) return say("of channels without positions", 0);
  if (axes == 1)
    return told.is(0, AxisKind::horizontal) && !may_name_columns(told.name(0))
               ? std::optional(say("without an axis of channels", {}))
               : std::nullopt;
  if (called) return say(with_channels(*called), called);
  const bool too_many = axes > kMostSpatial;
  if (!shortest) return too_many ? std::nullopt : std::optional(say("without an axis of channels", {}));
  const std::string which = told.name(*shortest).empty() ? "the other axis" : "'" + told.name(*shortest) + "'";
  if (too_many) return say(with_channels(*shortest), shortest, fmt::format("; {} holds the channels", which));
  if (told.is_short(*shortest))
    return say(with_channels(*shortest), shortest,
               fmt::format("; {} is short and holds the channels; if it holds positions, give "
                           "--axes \"{}\"",
                           which, order_text(axes, {})));
  return say("without an axis of channels", {},
             fmt::format("; if {} holds channels, give --axes \"{}\"", which, order_text(axes, shortest)));
}

}  // namespace

std::vector<NamedAxis> axes_named_in(const std::string& path, const RowLayout& layout, const FileArray& samples) {
  const bool by_row = layout.rows == RowsBy::axis;
  try {
    std::vector<NamedAxis> axes =
        named_axes(path, layout.first_group.empty() ? samples.name : layout.first_group + "/" + samples.name);
    if (by_row && !axes.empty()) axes.erase(axes.begin());
    return axes;
  } catch (const DataError&) {  // nothing is told then
    return {};
  }
}

std::string guess_axes(const FileArray& samples, const std::vector<NamedAxis>& named,
                       std::vector<std::string>& reasons) {
  const std::vector<Index> sizes(samples.shape.begin() + 1, samples.shape.end());
  const auto axes = sizes.size();
  const std::string shown = fmt::format("'{}' ({})", samples.name, fmt::join(samples.shape, ", "));
  const auto say = [&](const std::string& what, const std::string& order, const std::string& other = "") {
    reasons.push_back(fmt::format("{} is taken for {}{}", shown, what, other));
    return order;
  };
  if (axes < 1 || axes > 4) return "";  // guess_labels() refuses them
  const ToldAxes told(sizes, named);
  if (told.tell() && !samples.complex())
    if (const std::optional<std::string> order = axes_as_told(shown, told, axes, reasons)) return *order;
  if (axes == 1 && sizes[0] < 2 * kFewChannels) return say("features without positions", "");
  if (axes == 1) return say("series without an axis of channels", "n x");
  if (samples.complex()) return say("samples of complex numbers, whose parts are their channels", "");
  const Index others = *std::min_element(sizes.begin() + 1, sizes.end());
  const Index before = *std::min_element(sizes.begin(), sizes.end() - 1);
  const std::string first = order_text(axes, 0), last = order_text(axes, axes - 1);
  if (sizes.back() <= kFewChannels && sizes.back() < before) return say("samples with channels last", "");
  if (sizes.front() <= kFewChannels && sizes.front() < others) return say("samples with channels first", first);
  if (axes == 4 && looks_channels_first(sample_shape(samples.shape)))
    return say("samples with channels first", first,
               fmt::format("; if the last axis of {} holds channels, give --axes \"{}\"", sizes.back(), last));
  if (axes == 4) return say("samples with channels last", "");
  // More channels than that: an axis that is far shorter than all others, or may be.
  const bool is_last = sizes.back() < sizes.front();
  const Index fewest = std::min(sizes.front(), sizes.back()), most = is_last ? before : others;
  const std::string none = order_text(axes, {}), moved = is_last ? last : first;
  if (fewest <= kManyShort && most >= kFar * fewest)
    return say(is_last ? "samples with channels last" : "samples with channels first", is_last ? "" : first,
               fmt::format("; if the axis of {} holds positions, give --axes \"{}\"", fewest, none));
  return say("samples without an axis of channels", none,
             fewest <= kManyShort && most >= kApart * fewest
                 ? fmt::format("; if the axis of {} holds channels, give --axes \"{}\"", fewest, moved)
                 : "");
}

}  // namespace mrmf
