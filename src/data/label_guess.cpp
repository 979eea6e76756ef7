#include "src/data/label_guess.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <set>

#include "io/axis_order.hpp"
#include "io/hdf5_file.hpp"
#include "io/labels.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr Index kMostClasses = 256;
constexpr Index kMostCounted = 65536;    // whole numbers of which is known which there are
constexpr Index kMostMarks = 200;        // classes of positions: more are rather an image of bytes
constexpr std::size_t kFewNumbers = 16;  // as few different numbers as this are hardly measured ones
constexpr double kLeastShare = 0.75;     // of the classes, which must occur

/// What labels of all files hold.
struct Values {
  bool whole = true, from_0_to_1 = true;
  double least = 0, most = 0;
  Index count = 0;
  std::bitset<kMostCounted> classes;  ///< which of the whole numbers from 0 on there are
  std::set<float> others;             ///< of all other numbers a few

  void add(float value) {
    if (!std::isfinite(value)) return;
    least = count == 0 ? value : std::min<double>(least, value);
    most = count == 0 ? value : std::max<double>(most, value);
    ++count;
    const bool is_whole = value == std::floor(value);
    whole = whole && is_whole;
    from_0_to_1 = from_0_to_1 && (value == 0 || value == 1);
    if (is_whole && value >= 0 && value < kMostCounted)
      classes.set(static_cast<std::size_t>(value));
    else if (others.size() <= kFewNumbers)
      others.insert(value);
  }
  std::size_t distinct() const { return classes.count() + others.size(); }
  /// The different numbers, where they are few.
  std::vector<float> listed() const {
    std::vector<float> all(others.begin(), others.end());
    for (std::size_t i = 0; i < classes.size(); ++i)
      if (classes.test(i)) all.push_back(static_cast<float>(i));
    std::ranges::sort(all);
    return all;
  }
};

void add_values(const std::string& path, const std::string& labels, PackingRule packing, Values& all) {
  const Hdf5File file = Hdf5File::open(path, Comm::self(), packing);
  const DatasetInfo info = file.info(labels);
  const FileArray array{labels, info.shape, info.type, info.type_name};
  const Index width = array.per_row(), step = std::max<Index>(1, (Index{1} << 20) / std::max<Index>(1, width));
  for (Index row = 0; row < array.rows(); row += step) {
    std::vector<float> values(static_cast<std::size_t>(std::min(step, array.rows() - row) * width));
    file.read_rows(labels, row, std::min(step, array.rows() - row), values);
    for (const float value : values) all.add(value);
  }
}

/// How labels lie beside samples.
struct LabelLayout {
  bool positions = false;  ///< one or more per position
  Index width = 1;         ///< numbers per sample or position
  bool single = false;     ///< (n, W) with samples of W positions: one per position if they are classes
};

Shape shape_of(const FileArray& samples, const AxisOrder& order) {
  const std::vector<Index> sizes = channels_last(samples.shape, order, "'" + samples.name + "'");
  if (sizes.size() < 2 || sizes.size() > 5)
    throw DataError(
        fmt::format("'{}' has {} axes; samples are (n, features) or (n, 1 to 3 axes of positions, channels)",
                    samples.name, sizes.size()));
  return sample_shape(sizes);
}

// Of labels of several axes: whether they have the samples' positions, and channels behind these or none.
bool have_positions(const FileArray& labels, const Shape& sample, const AxisOrder& order) {
  const bool move = labels_move(labels.shape, sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape, order, labels.name) : labels.shape;
  const std::size_t spatial = static_cast<std::size_t>(sample.axes), axes = all.size() - 1;
  return spatial > 0 && (axes == spatial || axes == spatial + 1) &&
         std::equal(sample.spatial.end() - sample.axes, sample.spatial.end(), all.begin() + 1);
}

LabelLayout layout_of(const FileArray& labels, const FileArray& samples, const std::string& path,
                      const std::string& axes) {
  const AxisOrder order = parse_axes(axes);
  const Shape sample = shape_of(samples, order);
  const std::size_t count = labels.shape.size(), spatial = static_cast<std::size_t>(sample.axes);
  if (!labels_fit(labels, samples, axes))
    throw DataError(
        fmt::format("{}: '{}' ({}) does not fit '{}' ({}): labels per position have the samples' positions, and labels "
                    "per sample are stored as ({}, {}); store them so, or name others with --labels",
                    path, labels.name, fmt::join(labels.shape, ", "), samples.name, fmt::join(samples.shape, ", "),
                    labels.rows(), labels.per_row()));
  LabelLayout layout;
  layout.positions = count > 2;
  const bool last_axis = layout.positions ? count == spatial + 2 : count == 2;
  const bool first = layout.positions && last_axis && labels_move(labels.shape, sample, order);
  layout.width = !last_axis ? 1
                 : first    ? labels.shape[static_cast<std::size_t>(order.channel) + 1]
                            : labels.shape.back();
  layout.single = spatial == 1 && count == 2 && layout.width > 1 && layout.width == sample.spatial[2];
  return layout;
}

/// Whether whole numbers are classes: nearly all from 0 to the largest occur. Numbers far apart are marks or counts.
bool dense(const Values& values) {
  return values.least >= 0 && values.most >= 1 && values.others.empty() &&
         static_cast<double>(values.distinct()) >= kLeastShare * (values.most + 1);
}

/// What is known of labels beside their name.
struct Found {
  const FileArray& labels;
  LabelLayout layout;
  Values values;
  bool integer() const { return labels.integer(); }
  bool whole() const { return integer() && values.whole; }
  bool one() const { return layout.width == 1 || (layout.single && whole()); }
  /// Whether these are a label per position if they are classes.
  bool positions() const { return layout.positions || (layout.single && whole()); }
  /// Whether these are a few different whole numbers.
  bool few() const { return whole() && one() && values.distinct() > 1 && values.distinct() <= kFewNumbers; }
};

bool are_classes(const Found& found) {
  const Index most = std::min(found.positions() ? kMostMarks : kMostClasses, found.values.count);
  return found.whole() && found.one() && dense(found.values) && found.values.most < static_cast<double>(most);
}

// How to ask for classes where numbers may be some that were not taken for them; "" where they may not.
std::string hint(const Found& found) {
  const Values& values = found.values;
  const std::size_t distinct = values.distinct();
  if (found.few())
    return fmt::format(
        "these are only {}; if they are classes, store them as 0 to {}, or name a value without label in "
        "training.ignore",
        fmt::join(values.listed(), ", "), distinct - 1);
  const bool repeated = 2 * static_cast<Index>(distinct) <= values.count;
  if (!values.whole || !(values.least >= 0) || !values.others.empty() || !repeated) return "";
  const std::string in = found.integer() ? "" : " in " + found.labels.type_name;
  if (values.from_0_to_1 && found.layout.width > 1)
    return fmt::format(
        "these are zeros and ones{}, which are learned as numbers; if they are yes or no, store them as integers, or "
        "set training.loss = \"binary_cross_entropy\" and leave out normalise.labels",
        in);
  if (!found.one()) return "";
  if (dense(values))
    return fmt::format(
        "these are whole numbers of 0 to {:g}{}, which are learned as numbers; if they are classes, {}set "
        "training.loss = \"cross_entropy\" and {:g} outputs, and leave out normalise.labels",
        values.most, in, found.integer() ? "" : "store them as integers, or ", values.most + 1);
  if (!found.integer()) return "";
  return fmt::format("these are {} different whole numbers; if they are classes, store them as 0 to {}", distinct,
                     distinct - 1);
}

void guess(const Found& found, const std::string& path, FirstLook& look) {
  const auto& [labels, layout, values] = found;
  const auto say = [&](const std::string& reason) { look.reasons.push_back(reason); };
  look.outputs = layout.width;
  if (are_classes(found)) {
    look.kind = LabelKind::classes;
    look.outputs = static_cast<Index>(values.most) + 1;
    say(fmt::format("'{}' holds whole numbers of 0 to {:g}: {} classes, one {}", labels.name, values.most, look.outputs,
                    found.positions() ? "per position" : "per sample"));
    const Index absent = look.outputs - static_cast<Index>(values.distinct());
    if (absent > 0) say(fmt::format("{} of these classes never occur{}", absent, absent == 1 ? "s" : ""));
    return;
  }
  const std::string per = layout.positions ? "per position" : "per sample";
  if (found.integer() && values.from_0_to_1 && layout.width > 1) {
    look.kind = LabelKind::probabilities;
    say(fmt::format("'{}' holds zeros and ones: yes or no for {} outputs {}", labels.name, layout.width, per));
    return;
  }
  if (found.few() && layout.positions)
    throw DataError(
        fmt::format("{}: '{}' holds the whole numbers {} per position, and classes are 0, 1, 2 and so on without gaps; "
                    "store them as 0 to {}, or, if one of them says that there is no label, write a configuration that "
                    "names it in training.ignore",
                    path, labels.name, fmt::join(values.listed(), ", "), values.distinct() - 1));
  say(fmt::format("'{}' holds numbers of {:g} to {:g}: {} {}", labels.name, values.least, values.most, layout.width,
                  per));
  if (const std::string more = hint(found); !more.empty()) say(more);
}

}  // namespace

bool labels_fit(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  if (labels.shape.size() <= 2) return true;
  const AxisOrder order = parse_axes(axes);
  return have_positions(labels, shape_of(samples, order), order);
}

void guess_labels(const std::vector<std::string>& paths, const FileArray& labels, const FileArray& samples,
                  FirstLook& look) {
  const std::string& path = paths.front();
  if (labels.type == ElementType::other)
    throw DataError(
        fmt::format("{}: '{}' holds {} elements, and labels are numbers; store classes as whole numbers 0, "
                    "1, 2 and so on, or name others with --labels",
                    path, labels.name, labels.type_name));
  Found found{labels, layout_of(labels, samples, path, look.axes), {}};
  for (const std::string& file : paths)
    for (const std::string& name : {look.labels, look.validation_labels})
      if (!name.empty()) add_values(file, name, look.packing, found.values);
  guess(found, path, look);
}

}  // namespace mrmf
