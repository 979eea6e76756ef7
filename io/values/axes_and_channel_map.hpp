// The axes of stored arrays: what each is by its name and attributes (positions, heights, times, channels), and how
// channels get to the end; and the normalisation of numbers whose channels are last, with the way back.
#pragma once

#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

// What the axes of an array are, by what a file says of them: positions on a map, heights, times or channels.

enum class AxisKind { unknown, horizontal, vertical, time, channels };

/// What a file calls an axis ("": nothing), and what it is by that.
struct NamedAxis {
  AxisKind kind = AxisKind::unknown;
  std::string name{};
};

/// Attributes of the coordinate along an axis, as CF has them; "": it has none of that name.
struct CoordinateSaid {
  std::string axis{}, standard_name{}, units{}, positive{};
};
AxisKind axis_kind(const CoordinateSaid& said);

/// By a name that netCDF files and people have for axes: "lat", "x", "level", "time", "band". Case and numbers at the
/// end do not count ("lon_0").
AxisKind axis_kind(const std::string& name);

/// Whether the columns of a table may be called so, too: of an axis alone, the name does not tell of a map.
bool may_name_columns(const std::string& name);

/// What an axis is may follow from the others: the height of images is none above the ground.
void settle_kinds(std::vector<NamedAxis>& axes);

// Axes by name: where the channels of stored samples are, how they get to the end, and whether a shape looks as if they
// came first without having been named.

/// The axes of one stored row, without the first axis, which counts the samples.
struct AxisOrder {
  int axes = 0;      ///< axes of a row as stored; 0: not given, channels are the last axis
  int channel = -1;  ///< which of them holds the channels; -1: none, there is one channel
  bool given() const { return axes > 0; }
  /// Whether rows must be rearranged in memory.
  bool moves() const { return given() && channel >= 0 && channel + 1 < axes; }
};

/// Reads names such as "n t c": a word or a letter per axis of the data set, in the order of the file. The first is n,
/// the samples; c are the channels; all others are spatial and keep their order. "" gives no order. ConfigError says
/// what is wrong with `key`, which has that text.
AxisOrder parse_axes(const std::string& text, const std::string& key = "data.axes");

/// Puts the axis that counts the samples before the others, where the text leaves it out: "n z y x" of "z y x".
std::string axes_with_rows(const std::string& text);

/// The shape of a data set (n, ...) with its channels last, as (n, ..., channels). DataError, with `where`, when it has
/// another number of axes.
std::vector<Index> channels_last(const std::vector<Index>& stored, const AxisOrder& order, const std::string& where);

/// The shape of one sample of a data set of such a shape, of two to five axes: (n, up to three positions, channels).
Shape sample_shape(const std::vector<Index>& channels_last);

/// The box of a row: `before` x channels x `after` values as stored.
struct ChannelBox {
  Index before = 1, channels = 1, after = 1;
};
/// The box of channels of samples of this shape (channels last).
ChannelBox channel_box(const Shape& sample, const AxisOrder& order);

/// Copies `rows` rows of elements of so many bytes, channels to the end. `from` and `to` do not overlap.
void move_channels_last(const ChannelBox& box, Index rows, Index element_bytes, const std::byte* from, std::byte* to);

// Files whose channels come first, and are taken for others: channels come last unless the axes are named.

/// As many "channels" as this may be positions.
inline constexpr Index kManyChannels = 16;

/// Whether a sample that was read with its channels last may have them first: its first axis is shorter than the
/// others, and there are about as many "channels" as positions. (Samples of one axis: fewer positions than "channels".)
bool looks_channels_first(const Shape& sample);

// Normalisation of numbers with channels last: other units in which a network learns, and the way back.

/// y = f(x) * scale[c] + shift[c] for channel c, with f(x) = log(1 + x) or x. Empty: nothing changes.
struct ChannelMap {
  bool log1p = false;
  std::vector<float> scale, shift;  ///< one of each per channel; both empty where only the logarithm is taken
  std::vector<float> fill{};        ///< per channel: y where x is NaN, which is missing; empty: NaN stays
  bool mask = false;  ///< goes with fill: behind these channels comes one that says what was there, and stays
  bool empty() const { return !log1p && scale.empty() && fill.empty(); }
  bool operator==(const ChannelMap&) const = default;
};

/// Applies the map to consecutive values of a sample with channels last; `first` is the index of the first of them.
void apply(const ChannelMap& map, Index first, Span values);
/// The way back: from y to x. Of a map that fills nothing.
void undo(const ChannelMap& map, Index first, Span values);

}  // namespace mrmf
