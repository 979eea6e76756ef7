#include "io/rows/mixed_labels.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "io/files/limits.hpp"
#include "io/rows/labels.hpp"
#include "io/values/axis_order.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

/// Sizes of the axes of positions, as label_shape() tells them from channels.
std::vector<Index> positions_of(const RowSource& labels, const DatasetSpec& spec, const Shape& sample) {
  const AxisOrder order = parse_axes(spec.axes);
  const bool move = labels_move(labels.shape(), sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape(), order, labels.where()) : labels.shape();
  const auto axes = std::ssize(all) - 1;
  if (axes <= 1) return {};
  return {all.begin() + 1, all.end() - (axes == sample.axes ? 0 : 1)};
}

}  // namespace

std::optional<std::pair<Shape, MixedLabels>> mixed_labels(std::span<const std::unique_ptr<const RowSource>> sources,
                                                          const DatasetSpec& spec, const DatasetShape& samples) {
  if (spec.form.kind == LabelKind::classes || sources.size() < 2) return {};
  const auto positions = [&](const auto& source) { return positions_of(*source, spec, samples.sample); };
  const std::vector<Index> common = positions(sources.front());
  if (std::ranges::all_of(sources, [&](const auto& source) { return positions(source) == common; })) return {};
  Shape label{.channels = 0};
  MixedLabels mixed;
  bool first = true;
  for (const auto& source : sources) {
    if (source->holds_words()) throw DataError(source->where() + " holds words beside labels that are numbers");
    if (source->shape().front() != samples.samples)
      throw DataError(source->where() + " has " + std::to_string(source->shape().front()) + " rows for " +
                      std::to_string(samples.samples) + " samples; each sample needs its row of labels");
    const Index numbers = source->row_elements();
    if (numbers < 1) throw DataError(source->where() + " holds no labels; make the file again");
    label.channels += numbers;
    require_countable({samples.samples, label.channels}, source->where());
    first = first && positions(source).empty();
    if (first) ++mixed.sets, mixed.numbers += numbers;
  }
  mixed.all = label.channels;
  return std::pair(label, mixed);
}

std::pair<DatasetSpec, DatasetShape> first_of_mixed(const DatasetSpec& spec, const DatasetShape& shape) {
  DatasetSpec own = spec;
  DatasetShape first = shape;
  std::vector<std::string> names = spec.label_names();
  names.resize(static_cast<std::size_t>(shape.mixed.sets));
  own.name_labels(names);
  first.label = {.channels = shape.mixed.numbers};
  first.mixed = {};
  return {own, first};
}

}  // namespace mrmf
