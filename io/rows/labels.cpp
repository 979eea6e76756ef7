#include "io/rows/labels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "io/coarsen/coarsen.hpp"
#include "io/files/input_file.hpp"
#include "io/rows/not_finite.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/split.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

namespace mrmf {
namespace {

constexpr Extent kOriginal{1, 1, 1};
constexpr Index kMostByteClasses = 255;          // the last value of a byte says ignored
constexpr Index kReadElements = Index{1} << 22;  // converted at once

bool has_shares(const LabelForm& form, const Extent& resolution) {
  return form.kind == LabelKind::classes && form.coarse == CoarseLabels::shares && resolution != kOriginal;
}

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

template <class Class>
constexpr Class kIgnored = std::numeric_limits<Class>::max();

/// Calls use(position in the fine volume) for the positions of one block.
template <class Use>
void for_block(const Extent& fine, const Extent& factor, const Extent& at, const Use& use) {
  for (Index d = at[0] * factor[0]; d < (at[0] + 1) * factor[0]; ++d)
    for (Index h = at[1] * factor[1]; h < (at[1] + 1) * factor[1]; ++h)
      for (Index w = at[2] * factor[2]; w < (at[2] + 1) * factor[2]; ++w) use((d * fine[1] + h) * fine[2] + w);
}

/// Calls use(number, indices) for every position of a coarse volume.
template <class Use>
void for_each(const Extent& coarse, const Use& use) {
  Index position = 0;
  for (Index d = 0; d < coarse[0]; ++d)
    for (Index h = 0; h < coarse[1]; ++h)
      for (Index w = 0; w < coarse[2]; ++w) use(position++, Extent{d, h, w});
}

/// A sample's labels of classes, and how to make fewer of them.
template <class Class>
struct ClassBlocks {
  const Class* from;
  Extent fine, factor, coarse;
  Index classes;

  void shares(Span target) const {
    const float one = 1.0F / static_cast<float>(product(factor));
    std::ranges::fill(target, 0.0F);
    for_each(coarse, [&](Index position, const Extent& at) {
      float* const to = target.data() + position * classes;
      for_block(fine, factor, at, [&](Index i) {
        if (from[i] != kIgnored<Class>) to[from[i]] += 1;
      });
      for (Index c = 0; c < classes; ++c) to[c] *= one;
    });
  }
  void majority(Span target) const {
    std::vector<Index> counts(static_cast<std::size_t>(classes));
    for_each(coarse, [&](Index position, const Extent& at) {
      std::ranges::fill(counts, 0);
      for_block(fine, factor, at, [&](Index i) {
        if (from[i] != kIgnored<Class>) ++counts[from[i]];
      });
      const auto most = std::ranges::max_element(counts);
      target[static_cast<std::size_t>(position)] = *most == 0 ? -1.0F : static_cast<float>(most - counts.begin());
    });
  }
};

/// The mean of those that are not ignored, channel by channel.
void average_counted(const float* from, const Shape& fine, const Extent& factor, Span target) {
  const Shape coarse = coarse_shape(fine, factor);
  for_each(coarse.spatial, [&](Index position, const Extent& at) {
    for (Index c = 0; c < fine.channels; ++c) {
      double sum = 0;
      Index count = 0;
      for_block(fine.spatial, factor, at, [&](Index i) {
        const float value = from[i * fine.channels + c];
        if (value < 0) return;
        sum += value;
        ++count;
      });
      target[static_cast<std::size_t>(position * fine.channels + c)] =
          count == 0 ? -1.0F : static_cast<float>(sum / static_cast<double>(count));
    }
  });
}

}  // namespace

ElementType label_storage(const LabelForm& form) {
  if (form.kind != LabelKind::classes) return ElementType::float32;
  return form.classes <= kMostByteClasses ? ElementType::uint8 : ElementType::uint16;
}

Shape target_shape(const Shape& label, const LabelForm& form, const Extent& resolution) {
  if (label.axes == 0 || resolution == kOriginal) return label;
  Shape target = coarse_shape(label, resolution, "labels");
  if (has_shares(form, resolution)) target.channels = form.classes;
  return target;
}

bool labels_move(const std::vector<Index>& stored, const Shape& sample, const AxisOrder& order) {
  if (!order.moves() || std::ssize(stored) != order.axes + 1) return false;
  const auto fits = [&](const std::vector<Index>& shape) {
    return std::equal(sample.spatial.end() - sample.axes, sample.spatial.end(), shape.begin() + 1, shape.end() - 1);
  };
  return fits(channels_last(stored, order, "labels")) || !fits(stored);
}

namespace {

/// Numbers of some rows in their own type, with their channels last.
std::vector<std::byte> read_stored(const RowSource& source, Range rows, const Shape& label, const AxisOrder* order) {
  std::vector<std::byte> stored(static_cast<std::size_t>(rows.count * source.row_bytes()));
  source.read(rows.first, rows.count, stored.data());
  if (order == nullptr) return stored;
  std::vector<std::byte> moved(stored.size());
  move_channels_last(channel_box(label, *order), rows.count, size_of(source.type()), stored.data(), moved.data());
  return moved;
}

/// The same as float32.
void read_numbers(const RowSource& source, Range rows, const Shape& label, const AxisOrder* order, Span values) {
  const std::vector<std::byte> stored = read_stored(source, rows, label, order);
  MRMF_CHECK(stored.size() == values.size() * static_cast<std::size_t>(size_of(source.type())), source.where());
  to_float32(source.type(), stored.data(), values);
}

// Whether labels of this shape are one-hot in most of a file's first rows: one that is not is then named when it is
// read.
bool starts_one_hot(const RowSource& labels, const DatasetSpec& spec, const Shape& label, bool moves) {
  constexpr Index first_rows = 64;
  const Index rows = std::min(first_rows, labels.shape().front());
  std::vector<float> values(static_cast<std::size_t>(rows * labels.row_elements()));
  const AxisOrder order = parse_axes(spec.axes);
  read_numbers(labels, {0, rows}, label, moves ? &order : nullptr, values);
  const ClassValues classes(spec.form);
  const auto width = static_cast<std::size_t>(label.channels);
  std::size_t one_hot = 0;
  for (std::size_t at = 0; at < values.size(); at += width)
    one_hot += classes.of_one_hot(ConstSpan(values).subspan(at, width)) ? 1 : 0;
  return !values.empty() && 4 * one_hot * width >= 3 * values.size();
}

}  // namespace

Index one_hot_width(const RowSource& labels, const DatasetShape& shape, const DatasetSpec& spec) {
  if (spec.form.kind != LabelKind::classes || labels.holds_words() || labels.shape().size() < 2) return 0;
  const AxisOrder order = parse_axes(spec.axes);
  const bool moves = labels_move(labels.shape(), shape.sample, order);
  const std::vector<Index> all = moves ? channels_last(labels.shape(), order, "labels") : labels.shape();
  const auto axes = std::ssize(all) - 1;
  const bool positions = axes == shape.sample.axes + 1 && axes > 1;
  const bool each = axes == 1 && shape.sample.axes == 1 && all[1] == shape.sample.spatial[2];
  if ((axes != 1 && !positions) || each || all.back() < 2) return 0;
  Shape label{0, {1, 1, 1}, all.back(), positions ? shape.sample.axes : 0};
  std::copy(all.begin() + 1, all.end() - 1, label.spatial.end() - label.axes);
  return starts_one_hot(labels, spec, label, moves) ? all.back() : 0;
}

Labels::Labels(const DatasetSpec& spec, const DatasetShape& shape, Range owned)
    : label_(shape.label),
      sample_(shape.sample),
      one_hot_(shape.one_hot),
      form_(spec.form),
      classes_(spec.form),
      names_(shape.names),
      order_(parse_axes(spec.axes)),
      type_(label_storage(spec.form)) {
  MRMF_CHECK(form_.kind != LabelKind::classes || form_.classes > 0, "the number of classes is not resolved");
  stored_.resize(static_cast<std::size_t>(owned.count * label_.per_sample() * size_of(type_)));
  if (form_.kind == LabelKind::classes) counts_.resize(static_cast<std::size_t>(form_.classes));
  const StoredRows stored(shape);
  const RowSources sources(spec, &shape, spec.label_names(), {.words = !form_.values.empty()});
  std::size_t seen = spec.files.size();
  Index done = 0;
  stored.for_each_run(owned, [&](const RowRun& run) {
    const auto open = sources.at(run.file);
    if (run.file != seen && spec.missing == MissingRule::refuse)
      for (const auto& source : *open) source->require_written();
    seen = run.file;
    read(*open, run.rows, done);
    done += run.rows.count;
  });
}

void Labels::read(const OpenRows& open, Range rows, Index to) {
  const Index width = label_.per_sample(), positions = width / label_.channels;
  const Index step = std::max<Index>(1, kReadElements / (width * std::max<Index>(1, one_hot_)));
  std::vector<float> all, one;  // numbers of all names, and those of one
  for (Index done = 0; done < rows.count; done += step) {
    const Index count = std::min(step, rows.count - done);
    all.resize(static_cast<std::size_t>(count * width));
    Index channel = 0;
    for (const auto& source : open) {
      Rows part{*source, rows.first + done, count, label_, labels_move(source->shape(), sample_, order_)};
      part.label.channels = source->row_elements() / positions;
      read_checked(part, one);
      const Index own = std::ssize(one) / (count * positions);
      MRMF_CHECK(channel + own <= label_.channels, source->where());
      for (Index p = 0; p < count * positions; ++p)
        std::copy_n(one.data() + p * own, own, all.data() + p * label_.channels + channel);
      channel += own;
    }
    MRMF_CHECK(channel == label_.channels, open.front()->where());
    keep(all, stored_.data() + (to + done) * width * size_of(type_));
  }
}

void Labels::read_checked(const Rows& rows, std::vector<float>& values) const {
  if (rows.source.holds_words()) return read_words(rows, values);
  const Index width = rows.label.per_sample();
  const bool moves = label_.axes > 0 && rows.moves;
  const auto stored = read_stored(rows.source, {rows.first, rows.count}, rows.label, moves ? &order_ : nullptr);
  values.resize(stored.size() / static_cast<std::size_t>(size_of(rows.source.type())));
  to_float32(rows.source.type(), stored.data(), values);
  const bool lacks = says_no_label(form_, rows.source);
  const auto first_bad = lacks ? first_infinite : first_not_finite;
  const Index bad = first_bad(ElementType::float32, values.data(), std::ssize(values));
  if (bad < std::ssize(values))
    throw DataError(not_finite_text(rows.source, rows.first + bad / width,
                                    lacks ? NotFiniteRule::fill : NotFiniteRule::refuse, NumbersOf::labels));
  if (form_.kind == LabelKind::classes) to_classes(rows, stored.data(), values);
  if (form_.kind == LabelKind::probabilities) take_probabilities(rows, values);
}

void Labels::read_words(const Rows& rows, std::vector<float>& values) const {
  const std::vector<std::string> words = rows.source.words(rows.first, rows.count);
  values.clear();
  for (const std::string& word : words) {
    const std::optional<float> found = classes_.of(word);
    if (!found)
      throw DataError(rows.source.row_text(rows.first + std::ssize(values) / label_.per_sample()) + " holds \"" + word +
                      "\", and " + classes_.expected() + "; correct the label, or name it there");
    values.push_back(*found);
  }
}

// From labels as the file has them to numbers of classes, kIgnoredLabel where there is none. Single numbers are taken
// as they are stored: float32 does not tell large ones apart.
void Labels::to_classes(const Rows& rows, const std::byte* stored, std::vector<float>& values) const {
  const ElementType type = rows.source.type();
  const auto row_of = [&](Index label) { return rows.source.row_text(rows.first + label / label_.per_sample()); };
  if (one_hot_ == 0) {
    require_told_apart(rows.source);
    for (Index i = 0; i < std::ssize(values); ++i) {
      const double label = number_at(type, stored, i);
      const std::optional<float> found = class_of(rows.source, label);
      if (!found) refuse_class(row_of(i), label);
      values[static_cast<std::size_t>(i)] = *found;
    }
    return;
  }
  const auto wide = static_cast<std::size_t>(one_hot_);
  for (std::size_t i = 0; i * wide < values.size(); ++i) {
    const ConstSpan label = ConstSpan(values).subspan(i * wide, wide);
    const bool lacks =
        says_no_label(form_, rows.source) && std::ranges::any_of(label, [](float v) { return std::isnan(v); });
    const std::optional<float> found = lacks ? kIgnoredLabel : classes_.of_one_hot(label);
    if (!found) refuse_one_hot(row_of(static_cast<Index>(i)), label);
    values[i] = *found;
  }
  values.resize(values.size() / wide);
}

std::optional<float> Labels::class_of(const RowSource& source, double label) const {
  if (std::isnan(label)) return kIgnoredLabel;  // all others are refused before
  const std::optional<float> found = classes_.of(label, source.type());
  const bool foreign = found && *found != kIgnoredLabel && names_.complete && form_.values.empty() &&
                       !names_.of.contains(static_cast<Index>(label));
  return foreign ? std::nullopt : found;
}

void Labels::require_told_apart(const RowSource& source) const {
  if (const auto same = classes_.same_in(source.type()))
    throw DataError(source.where() + " holds " + to_string(source.type()) + " elements, in which " + same->first +
                    " and " + same->second + " of training.class_values are the same; store the labels as integers");
}

void Labels::refuse_one_hot(const std::string& where, ConstSpan label) {
  throw DataError(where + " is not one-hot, as the first rows are: it has " +
                  std::to_string(std::ranges::count_if(label, [](float v) { return v != 0; })) +
                  " numbers other than 0, and one that is 1 is wanted; correct it, name a value without label in "
                  "training.ignore, or take binary_cross_entropy where several may hold");
}

void Labels::refuse_class(const std::string& where, double label) const {
  if (names_.complete && !names_.of.contains(static_cast<Index>(label)))
    throw DataError(where + " holds " + number(label) +
                    ", which its enumeration does not have; correct the label, or name its value in training.ignore");
  throw DataError(
      where + " holds " + number(label) + ", and " + classes_.expected() +
      "; correct the label, name its value in training.ignore, or " +
      (form_.values.empty() ? "give the network's last layer as many outputs as there are classes" : "name it there"));
}

// Keeps values that are classes or probabilities already.
void Labels::keep(ConstSpan values, std::byte* to) {
  if (form_.kind == LabelKind::classes)
    keep_classes(values, to);
  else
    std::ranges::copy(values, reinterpret_cast<float*>(to));
  const auto width = static_cast<std::size_t>(label_.per_sample());
  for (std::size_t row = 0; row < values.size(); row += width)
    labelled_ += form_.kind == LabelKind::numbers ||
                         std::ranges::any_of(values.subspan(row, width), [](float v) { return v != kIgnoredLabel; })
                     ? 1
                     : 0;
}

void Labels::keep_classes(ConstSpan values, std::byte* to) {
  const auto keep = [&]<class Class>(Class* stored) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == kIgnoredLabel) {
        stored[i] = kIgnored<Class>;
        continue;
      }
      stored[i] = static_cast<Class>(values[i]);
      ++counts_[static_cast<std::size_t>(values[i])];
    }
  };
  if (type_ == ElementType::uint8)
    keep(reinterpret_cast<std::uint8_t*>(to));
  else
    keep(reinterpret_cast<std::uint16_t*>(to));
}

void Labels::take_probabilities(const Rows& rows, Span values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) || (form_.ignore && values[i] == static_cast<float>(*form_.ignore)))
      values[i] = kIgnoredLabel;  // NaN that means nothing of the kind is refused before
    else if (!(values[i] >= 0 && values[i] <= 1))
      throw DataError(rows.source.row_text(rows.first + static_cast<Index>(i) / rows.label.per_sample()) + " holds " +
                      number(values[i]) +
                      ", and labels of yes or no are from 0 to 1; correct the label, or name its value in "
                      "training.ignore");
  }
}

std::int32_t Labels::class_of(Index row) const {
  const std::byte* const at = stored_.data() + row * size_of(type_);
  const auto read = [&]<class Class>(const Class* value) {
    return *value == kIgnored<Class> ? -1 : static_cast<std::int32_t>(*value);
  };
  return type_ == ElementType::uint8 ? read(reinterpret_cast<const std::uint8_t*>(at))
                                     : read(reinterpret_cast<const std::uint16_t*>(at));
}

Foreground Labels::foreground(Index row) const {
  constexpr Index kMost = 1024;  // positions of each class
  const Index width = label_.per_sample();
  const std::byte* const from = stored_.data() + row * width * size_of(type_);
  const bool classes = form_.kind == LabelKind::classes;
  Foreground found(static_cast<std::size_t>(classes ? form_.classes : label_.channels));
  const auto each = [&](const auto& use) {  // calls use(index of `found`, position)
    for (Index i = 0; i < width; ++i) {
      if (type_ == ElementType::float32) {
        if (reinterpret_cast<const float*>(from)[i] > 0.5F) use(i % label_.channels, i / label_.channels);
        continue;
      }
      const Index c = type_ == ElementType::uint8 ? reinterpret_cast<const std::uint8_t*>(from)[i]
                                                  : reinterpret_cast<const std::uint16_t*>(from)[i];
      if (c > 0 && c < form_.classes) use(c, i);
    }
  };
  std::vector<Index> counts(found.size()), seen(found.size());
  each([&](Index c, Index) { ++counts[static_cast<std::size_t>(c)]; });
  each([&](Index c, Index position) {
    const auto of = static_cast<std::size_t>(c);
    const Index number = seen[of]++, wanted = std::min(kMost, counts[of]);
    if (number * wanted / counts[of] != (number + 1) * wanted / counts[of]) found[of].push_back(position);
  });
  return found;
}

void Labels::write(const Extent& resolution, Index row, Span target) const {
  write(stored_.data() + row * label_.per_sample() * size_of(type_), label_, resolution, target);
}

void Labels::write(const Extent& resolution, Index row, const Box& box, Span target) const {
  const Box fine = at_original(box, resolution);
  Shape part = label_;
  part.spatial = fine.count;
  std::vector<std::byte> cut(static_cast<std::size_t>(part.per_sample() * size_of(type_)));
  cut_box(label_, size_of(type_), stored_.data() + row * label_.per_sample() * size_of(type_), fine, cut.data());
  write(cut.data(), part, resolution, target);
}

void Labels::write(const std::byte* from, const Shape& label, const Extent& resolution, Span target) const {
  const Index width = label.per_sample();
  const bool coarse = label.axes > 0 && resolution != kOriginal;
  if (type_ == ElementType::float32) {
    const auto* values = reinterpret_cast<const float*>(from);
    if (!coarse) {
      std::copy_n(values, width, target.data());
    } else if (form_.kind == LabelKind::probabilities) {
      average_counted(values, label, resolution, target);
    } else {
      const Extent small = coarse_shape(label, resolution).spatial;
      coarsen_lines({type_, label, values}, resolution, {0, small[0] * small[1]}, target.data());
    }
    return;
  }
  const auto write_classes = [&]<class Class>(const Class* values) {
    if (!coarse) {
      for (Index i = 0; i < width; ++i)
        target[static_cast<std::size_t>(i)] = values[i] == kIgnored<Class> ? -1.0F : static_cast<float>(values[i]);
      return;
    }
    const ClassBlocks<Class> blocks{values, label.spatial, resolution, coarse_shape(label, resolution).spatial,
                                    form_.classes};
    if (form_.coarse == CoarseLabels::shares)
      blocks.shares(target);
    else
      blocks.majority(target);
  };
  if (type_ == ElementType::uint8)
    write_classes(reinterpret_cast<const std::uint8_t*>(from));
  else
    write_classes(reinterpret_cast<const std::uint16_t*>(from));
}

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
