// How labels lie beside samples: one or more for each, or for each of its positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "io/rows/labels.hpp"
#include "io/values/axis_order.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/guess_parts.hpp"

namespace mrmf {
namespace {

Shape shape_of(const FileArray& samples, const AxisOrder& order) {
  const std::vector<Index> sizes = channels_last(samples.shape, order, "'" + samples.name + "'");
  if (sizes.size() < 2 || sizes.size() > 5)
    throw DataError(
        fmt::format("'{}' has {} axes; samples are (n, features) or (n, 1 to 3 axes of positions, channels)",
                    samples.name, sizes.size()));
  return sample_shape(sizes);
}

// Whether labels of several axes have the samples' positions, and channels behind these or none.
bool have_positions(const FileArray& labels, const Shape& sample, const AxisOrder& order) {
  const bool move = labels_move(labels.shape, sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape, order, labels.name) : labels.shape;
  const std::size_t spatial = static_cast<std::size_t>(sample.axes), axes = all.size() - 1;
  return spatial > 0 && (axes == spatial || axes == spatial + 1) &&
         std::equal(sample.spatial.end() - sample.axes, sample.spatial.end(), all.begin() + 1);
}

// What to do about labels that have the samples' positions but for an axis of length 1; "" where they have not.
std::string drop_text(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  for (std::size_t axis = 1; axis < labels.shape.size() && labels.shape.size() > 3; ++axis) {
    if (labels.shape[axis] != 1) continue;
    FileArray less = labels;
    less.shape.erase(less.shape.begin() + std::ptrdiff_t(axis));
    if (labels_fit(less, samples, axes))
      return fmt::format("without its axis of length 1 it has the samples' positions: drop it, such as y.squeeze({})",
                         axis);
  }
  return "";
}

}  // namespace

LabelLayout layout_of(const FileArray& labels, const FileArray& samples, const std::string& path,
                      const std::string& axes) {
  const AxisOrder order = parse_axes(axes);
  const Shape sample = shape_of(samples, order);
  const std::size_t count = labels.shape.size(), spatial = static_cast<std::size_t>(sample.axes);
  if (!labels_fit(labels, samples, axes)) {
    if (const std::string drop = drop_text(labels, samples, axes); !drop.empty())
      throw DataError(fmt::format("{}: '{}' ({}) does not fit '{}' ({}); {}", path, labels.name,
                                  fmt::join(labels.shape, ", "), samples.name, fmt::join(samples.shape, ", "), drop));
    throw DataError(
        fmt::format("{}: '{}' ({}) does not fit '{}' ({}): labels per position have the samples' positions, and labels "
                    "per sample are stored as ({}, {}); store them so, or name others with --labels",
                    path, labels.name, fmt::join(labels.shape, ", "), samples.name, fmt::join(samples.shape, ", "),
                    labels.rows(), labels.per_row()));
  }
  LabelLayout layout;
  layout.positions = count > 2;
  const bool last_axis = layout.positions ? count == spatial + 2 : count == 2;
  const bool first = layout.positions && last_axis && labels_move(labels.shape, sample, order);
  layout.width = !last_axis ? 1
                 : first    ? labels.shape[static_cast<std::size_t>(order.channel) + 1]
                            : labels.shape.back();
  if (first) {
    Shape label = sample;
    label.channels = layout.width;
    layout.moves = channel_box(label, order);
  }
  layout.single = spatial == 1 && count == 2 && layout.width > 1 && layout.width == sample.spatial[2];
  return layout;
}

bool labels_fit(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  if (labels.shape.size() <= 2) return true;
  const AxisOrder order = parse_axes(axes);
  return have_positions(labels, shape_of(samples, order), order);
}

}  // namespace mrmf
