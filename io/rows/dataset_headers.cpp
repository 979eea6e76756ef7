// What the headers of a data set's files say, and what their attributes say that nothing applies; declared in
// dataset.hpp.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/files/file_names.hpp"
#include "io/files/input_file.hpp"
#include "io/files/text.hpp"
#include "io/rows/class_values.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/row_names_and_origins.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/class_names.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {

// What attributes of a data set's files say that nothing applies, as runs warn of it.

/// What attributes of one name say in this rank's files that nothing applies.
struct NotAppliedSeen {
  std::string text;  ///< text of the first file that has some
  std::size_t file = 0;
  std::int64_t files = 0;  ///< that have some

  void add(std::size_t here, const std::string& one) {
    if (one.empty()) return;
    if (files++ == 0) text = one, file = here;
  }
};

/// A line for each name of which attributes say such a thing, in the words of the first file. Collective.
std::vector<std::string> not_applied_lines(const RowSources& sources, const std::vector<NotAppliedSeen>& seen,
                                           std::size_t files, Comm& comm) {
  constexpr double none = std::numeric_limits<double>::max();
  std::vector<std::string> lines;
  for (std::size_t name = 0; name < seen.size(); ++name) {
    const double here = seen[name].files == 0 ? none : static_cast<double>(seen[name].file), first = comm.min(here);
    if (first == none) continue;
    std::string text = seen[name].text;
    comm.broadcast(text, static_cast<int>(comm.min(here == first ? comm.rank() : comm.size())));
    std::vector<std::int64_t> count{seen[name].files};
    comm.sum(std::span(count));
    const bool all = static_cast<std::size_t>(count.front()) == files;
    lines.push_back("'" + sources.names()[name] + "'" +
                    (all ? ""
                         : " in " + std::to_string(count.front()) + " of " + std::to_string(files) +
                               " files, such as " + sources.path(static_cast<std::size_t>(first))) +
                    ": " + text);
  }
  return lines;
}

// What the headers of a data set's files say, compared file by file (inspect_headers()); declared in dataset.hpp.

namespace {

/// The shape of an array as it is stored: where all of it is one row, no axis counts rows.
std::string stored_text(const RowSource& rows, RowsBy form) {
  return shape_text({rows.shape().begin() + (form == RowsBy::axis ? 0 : 1), rows.shape().end()});
}

/// The shape of one sample from (n, F) or (n, spatial..., C), or as data.axes names its axes.
Shape require_sample_shape(const RowSource& rows, const DatasetSpec& spec) {
  const std::vector<Index> shape = channels_last(rows.shape(), parse_axes(spec.axes), rows.where());
  const std::string has = rows.where() + " has shape " + stored_text(rows, spec.rows);
  if (shape.size() < 2 || shape.size() > 5)
    throw DataError(has +
                    (spec.rows == RowsBy::axis ? "; samples are (n, features) or (n, 1 to 3 spatial axes, channels)"
                                               : "; a sample is (features) or (1 to 3 spatial axes, channels)") +
                    "; data.axes names other axes");
  for (std::size_t axis = 1; axis < shape.size(); ++axis)
    if (shape[axis] < 1) throw DataError(has + "; a sample holds nothing: make the file again");
  return sample_shape(shape);
}

/// The shape of one sample's labels. Classes are single numbers, so that an axis less than the samples' has is enough
/// for their positions; the same goes for numbers, unless these axes could also be one of outputs.
Shape label_shape(const RowSource& labels, const Shape& sample, const DatasetSpec& spec, bool one_hot) {
  const LabelForm& form = spec.form;
  const AxisOrder order = parse_axes(spec.axes);
  const bool move = labels_move(labels.shape(), sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape(), order, labels.where()) : labels.shape();
  const std::string single = spec.rows == RowsBy::axis ? "(n)" : "a single number",
                    several = spec.rows == RowsBy::axis ? "(n, outputs)" : "(outputs)";
  const auto refuse = [&](const std::string& wanted) {
    throw DataError(labels.where() + " has shape " + stored_text(labels, spec.rows) + "; " + wanted);
  };
  const bool empty = std::find(all.begin() + 1, all.end(), 0) != all.end();
  if (empty) refuse("labels are " + single + " or " + several + ", or have positions as the samples do");
  const auto axes = std::ssize(all) - 1;
  const bool classes = form.kind == LabelKind::classes;
  Shape shape;
  if (one_hot) {
    shape.channels = 1;
    if (axes == 1) return shape;
    shape.axes = sample.axes;
    std::copy(all.begin() + 1, all.end() - 1, shape.spatial.end() - sample.axes);
    return shape;
  }
  if (axes == 0 || (axes == 1 && (!classes || all[1] == 1 || sample.axes != 1))) {
    shape.channels = axes == 0 ? 1 : all[1];
    if (classes && shape.channels != 1)
      refuse("a sample has one class: labels are " + single +
             ", or one-hot rows of a single 1 and zeros, or have positions as the samples do");
    return shape;
  }
  const bool without_channels = axes == sample.axes;
  if (!without_channels && axes != sample.axes + 1)
    refuse("labels are " + single + (classes ? "" : " or " + several) + ", or have positions as the samples (" +
           to_string(sample) + ") do");
  shape.axes = sample.axes;
  shape.channels = without_channels ? 1 : all.back();
  for (int axis = 0; axis < shape.axes; ++axis)
    shape.spatial[static_cast<std::size_t>(3 - shape.axes + axis)] = all[static_cast<std::size_t>(1 + axis)];
  if (classes && shape.channels != 1)
    refuse("a position has one class: store its number, with a last axis of 1 or none, or one-hot");
  return shape;
}

/// Sets the shape of labels in `shape`, from the file's headers and, where they may be one-hot, its first rows.
void inspect_labels(const RowSource& labels, const DatasetSpec& spec, DatasetShape& shape) {
  if (labels.holds_words() && spec.form.kind == LabelKind::classes && spec.form.values.empty())
    throw DataError(labels.where() + " holds words; name them in training.class_values, in the order of the classes");
  if (labels.holds_words() && spec.form.values.empty())
    throw DataError(labels.where() +
                    " holds words; as classes they are learned with training.loss = \"cross_entropy\" and "
                    "training.class_values, which names them in the order of the classes");
  // Single characters may be classes of a series' positions.
  if (shape.sample.axes != 1 || labels.shape().back() != shape.sample.spatial.back())
    if (const std::string characters = characters_text(labels); !characters.empty()) throw DataError(characters);
  shape.one_hot = one_hot_width(labels, shape, spec);
  shape.label = label_shape(labels, shape.sample, spec, shape.one_hot > 0);
  if (labels.shape().front() != shape.samples)
    throw DataError(labels.where() + " has " + std::to_string(labels.shape().front()) + " rows for " +
                    std::to_string(shape.samples) + " samples; " +
                    (labels.shape().size() > 1 && labels.shape().back() == shape.samples
                         ? "these are in its last axis: store it transposed, such as numpy.moveaxis(y, -1, 0)"
                         : "each sample needs its row of labels"));
  require_countable({shape.samples, shape.label.per_sample() * std::max<Index>(1, shape.one_hot)}, labels.where());
}

/// One of a file's data sets of samples, without labels.
DatasetShape inspect_samples(const RowSource& samples, const RowSource::Common& common, const DatasetSpec& spec) {
  DatasetShape shape;
  if (samples.holds_words()) throw DataError(samples.where() + " holds string elements; " + readable_types());
  shape.sample = require_sample_shape(samples, spec);
  shape.samples = samples.shape().front();
  shape.type = kept_as(samples.type());
  shape.converted = common.converted;
  shape.chunks = common.chunk_memory;
  if (shape.samples == 0) throw DataError(samples.where() + " is empty (0 samples); leave that file out");
  return shape;
}

Index widest(const DatasetShape& a, const DatasetShape& b) { return std::max(size_of(a.type), size_of(b.type)); }

/// Takes what HDF5 and conversions need for both; the type in memory is that of both, or float32.
void join_storage(DatasetShape& all, const DatasetShape& one) {
  all.converted = std::max({all.converted, one.converted, one.type == all.type ? 0 : widest(one, all)});
  all.chunks.cache = std::max(all.chunks.cache, one.chunks.cache);
  all.chunks.unpacking = std::max(all.chunks.unpacking, one.chunks.unpacking);
  if (one.type != all.type) all.type = ElementType::float32;
}

/// Adds the samples' next data set, whose channels follow.
void join_channels(DatasetShape& shape, const DatasetShape& more, const RowSource& rows, const DatasetSpec& spec) {
  if (more.samples != shape.samples || more.sample.spatial != shape.sample.spatial ||
      more.sample.axes != shape.sample.axes)
    throw DataError(rows.where() + " has " + std::to_string(more.samples) + " samples of " + to_string(more.sample) +
                    ", and '" + spec.samples + "' " + std::to_string(shape.samples) + " of " + to_string(shape.sample) +
                    "; only their channels may differ");
  shape.sample.channels += more.sample.channels;
  join_storage(shape, more);
}

/// The same for labels.
void join_labels(Shape& label, const Shape& more, const RowSource& rows, const DatasetSpec& spec) {
  if (spec.form.kind == LabelKind::classes)
    throw DataError(rows.where() + " follows '" + spec.labels +
                    "' in a list of labels, and a sample has one class: name one data set");
  if (more.spatial != label.spatial || more.axes != label.axes)
    throw DataError(rows.where() + " has " + to_string(more) + " labels per sample, and '" + spec.labels + "' " +
                    to_string(label) + "; only their channels may differ");
  label.channels += more.channels;
}

/// One file: its shape, with an `n` of 0, what else must be the same in all files, and its groups.
struct FileFacts {
  DatasetShape shape;
  std::vector<std::string> units;  ///< units of samples and labels, in the order of the names
  std::vector<LabelNames> names;   ///< those of labels that differ, of one data set
  GroupsAsRows groups;
  std::vector<std::string> not_applied{};  ///< Packing::not_applied, in the order of the names; of groups, of the first
  bool elsewhere = false;                  ///< samples may lie in another file
};

FileFacts inspect_file(const RowSources& sources, std::size_t file, const DatasetSpec& spec) {
  FileFacts facts;
  auto open = sources.open(file, facts.groups);
  const std::size_t of_samples = spec.sample_names().size();
  std::vector<RowSource::Common> common;
  for (const auto& rows : *open) {
    common.push_back(rows->require_alike(spec.missing == MissingRule::refuse));
    facts.units.push_back(readable_text(common.back().units));
    facts.not_applied.push_back(rows->packing().not_applied);
  }
  for (std::size_t i = 0; i < common.size(); ++i)
    if (common[i].type != (*open)[i]->type()) facts.groups.types[sources.names()[i]] = common[i].type;
  if (!facts.groups.types.empty()) open = sources.open(file, facts.groups);
  DatasetShape& shape = facts.shape;
  for (std::size_t i = 0; i < of_samples; ++i) facts.elsewhere = facts.elsewhere || common[i].elsewhere;
  shape = inspect_samples(*open->front(), common.front(), spec);
  for (std::size_t i = 1; i < of_samples; ++i)
    join_channels(shape, inspect_samples(*(*open)[i], common[i], spec), *(*open)[i], spec);
  if (spec.mask) ++shape.sample.channels;
  if (const auto mixed = mixed_labels(std::span(*open).subspan(of_samples), spec, shape)) {
    std::tie(shape.label, shape.mixed) = *mixed;
    return facts;
  }
  for (std::size_t i = of_samples; i < open->size(); ++i) {
    const RowSource& rows = *(*open)[i];
    DatasetShape more = shape;
    inspect_labels(rows, spec, more);
    if (i > of_samples)
      join_labels(shape.label, more.label, rows, spec);
    else
      shape.label = more.label, shape.one_hot = more.one_hot;
  }
  if (open->size() == of_samples + 1)  // several data sets have names of their own
    for (const auto& [where, names] : common.back().names)
      facts.names.push_back(LabelNames::from(names, where, spec.form, shape.label.channels));
  return facts;
}

[[noreturn]] void refuse_file(const RowSources& sources, std::size_t file, std::size_t name, const std::string& here,
                              std::size_t other, const std::string& there, const std::string& remedy = "") {
  refuse_unlike(sources.path(file) + ": data set '" + sources.names()[name] + "'", here, sources.path(other), there,
                remedy);
}

/// DataError where a file is unlike the first, but for units.
void require_alike(const RowSources& sources, std::size_t file, const FileFacts& one, const FileFacts& first) {
  const auto differ = [&](std::size_t name, const std::string& here, const std::string& there) {
    refuse_file(sources, file, name, here, 0, there);
  };
  const DatasetShape &here = one.shape, &there = first.shape;
  if (here.sample != there.sample) differ(0, "samples of " + to_string(here.sample), to_string(there.sample));
  const auto classes = [](Index one_hot) {
    return one_hot > 0 ? "one-hot rows of " + std::to_string(one_hot) + " classes" : std::string("numbers of classes");
  };
  if (here.one_hot != there.one_hot)
    throw DataError(sources.path(file) + ": data set '" + sources.names().back() + "' holds " + classes(here.one_hot) +
                    ", and " + sources.path(0) + " " + classes(there.one_hot) + "; leave one of them out");
  if (here.label != there.label)
    differ(sources.names().size() - 1, to_string(here.label) + " labels per sample", to_string(there.label));
}

/// The units of one name in this rank's files.
struct UnitsSeen {
  std::string units;  ///< units of the first file that has some
  std::size_t file = 0;
  std::vector<std::pair<std::size_t, std::string>> others{};  ///< the first that has them, for each other ones

  void add(std::size_t here, const std::string& text) {
    if (text.empty() || same_units(text, units)) return;
    if (units.empty()) {
      units = text, file = here;
      return;
    }
    const auto known = [&](const auto& other) { return same_units(other.second, text); };
    if (std::ranges::none_of(others, known)) others.emplace_back(here, text);
  }
};

/// The units of each name, of the first file that has some; nothing at all where none has. Arrays without units have
/// any. DataError where files have others. Collective.
std::vector<std::string> require_units(const RowSources& sources, const std::vector<UnitsSeen>& seen, Comm& comm) {
  constexpr double none = std::numeric_limits<double>::max();
  std::vector<std::string> all(seen.size());
  for (std::size_t name = 0; name < seen.size(); ++name) {
    const UnitsSeen& own = seen[name];
    const double here = own.units.empty() ? none : static_cast<double>(own.file), first = comm.min(here);
    if (first == none) continue;
    std::string units = own.units;
    comm.broadcast(units, static_cast<int>(comm.min(here == first ? comm.rank() : comm.size())));
    std::vector<std::pair<std::size_t, std::string>> mine = own.others;
    if (!own.units.empty()) mine.emplace_back(own.file, own.units);
    std::erase_if(mine, [&](const auto& one) { return same_units(one.second, units); });
    std::ranges::sort(mine);
    const Index bad = mine.empty() ? 0 : static_cast<Index>(mine.front().first);
    collective_try_each(comm, bad, mine.empty() ? 0 : 1, [&](Index file) {
      const auto [here_text, there_text, remedy] = units_difference(mine.front().second, units);
      refuse_file(sources, static_cast<std::size_t>(file), name, here_text, static_cast<std::size_t>(first), there_text,
                  remedy);
    });
    all[name] = std::move(units);
  }
  if (std::ranges::all_of(all, &std::string::empty)) all.clear();
  return all;
}

void require_files(const DatasetSpec& spec, Comm& comm) {
  std::string names;
  for (const std::string& file : spec.files) names += file + "\n";
  if (!comm.all_equal(XXH3_64bits(names.data(), names.size())))
    throw FaultError("the ranks see different files for data.files (" + std::to_string(spec.files.size()) +
                     " on rank " + std::to_string(comm.rank()) + "); is the file system the same on every node?");
  if (spec.files.empty()) throw ConfigError("data.files is empty; name at least one HDF5 file");
  for (const std::string& path : spec.files)
    if (is_pattern(path)) throw ConfigError("data.files: " + no_match_text(path));
}

/// The shape that the root found, on all ranks.
void broadcast(DatasetShape& shape, Comm& comm) {
  Extent &spatial = shape.sample.spatial, &labels = shape.label.spatial;
  std::int64_t axes = shape.sample.axes, label_axes = shape.label.axes, type = static_cast<std::int64_t>(shape.type);
  const std::vector<std::int64_t*> numbers{&shape.samples,
                                           &shape.label.channels,
                                           &shape.sample.channels,
                                           &axes,
                                           &spatial[0],
                                           &spatial[1],
                                           &spatial[2],
                                           &type,
                                           &shape.chunks.cache,
                                           &shape.chunks.unpacking,
                                           &shape.converted,
                                           &label_axes,
                                           &labels[0],
                                           &labels[1],
                                           &labels[2],
                                           &shape.one_hot,
                                           &shape.mixed.sets,
                                           &shape.mixed.numbers,
                                           &shape.mixed.all};
  std::vector<std::int64_t> words;
  for (const std::int64_t* number : numbers) words.push_back(*number);
  comm.broadcast(std::span(words), 0);
  for (std::size_t i = 0; i < words.size(); ++i) *numbers[i] = words[i];
  shape.sample.axes = static_cast<int>(axes);
  shape.label.axes = static_cast<int>(label_axes);
  shape.type = static_cast<ElementType>(type);
}

/// What ranks have found of their files, joined.
void join(DatasetShape& all, Comm& comm) {
  const auto most = [&](Index number) { return static_cast<Index>(comm.max(static_cast<double>(number))); };
  const bool mixed = comm.any(all.type == ElementType::float32) && comm.any(all.type != ElementType::float32);
  if (mixed) all.type = ElementType::float32;
  all.converted = most(all.converted);
  all.chunks.cache = most(all.chunks.cache);
  all.chunks.unpacking = most(all.chunks.unpacking);
  comm.sum(std::span<std::int64_t>(all.file_samples));
}

}  // namespace

DatasetShape inspect_headers(const DatasetSpec& spec, Comm& comm, const RememberedRows& remembered) {
  require_files(spec, comm);
  std::vector<std::string> names = spec.sample_names();
  std::ranges::copy(spec.label_names(), std::back_inserter(names));
  DatasetShape unknown;
  unknown.remembered = remembered;
  const RowSources sources(spec, &unknown, names, {.words = true});
  FileFacts first;
  collective_try_each(comm, 0, comm.root() ? 1 : 0, [&](Index) { first = inspect_file(sources, 0, spec); });
  broadcast(first.shape, comm);
  DatasetShape all = first.shape;
  all.file_samples.assign(spec.files.size(), 0);
  std::vector<std::int64_t> elsewhere(spec.files.size());
  std::vector<UnitsSeen> units(names.size());
  std::vector<NotAppliedSeen> not_applied(names.size());
  NamesSeen label_names;
  std::vector<GroupsAsRows> groups(spec.rows == RowsBy::groups ? spec.files.size() : 0);
  const Range mine = piece(std::ssize(spec.files), comm.rank(), comm.size());
  collective_try_each(comm, mine.first, mine.count, [&](Index i) {
    const auto file = static_cast<std::size_t>(i);
    const FileFacts one = file == 0 ? first : inspect_file(sources, file, spec);
    require_alike(sources, file, one, first);
    join_storage(all, one.shape);
    all.file_samples[file] = one.shape.samples;
    elsewhere[file] = one.elsewhere ? 1 : 0;
    if (!groups.empty()) groups[file] = one.groups;
    for (std::size_t name = 0; name < units.size(); ++name) units[name].add(file, one.units[name]);
    for (std::size_t name = 0; name < units.size(); ++name) not_applied[name].add(file, one.not_applied[name]);
    for (const LabelNames& one_name : one.names) label_names.add(i, one_name);
  });
  all.units = require_units(sources, units, comm);
  all.not_applied = not_applied_lines(sources, not_applied, spec.files.size(), comm);
  all.names = label_names.agreed(comm);
  join(all, comm);
  all.groups = share_groups(groups, comm);
  comm.sum(std::span(elsewhere));
  for (std::size_t i = 0; i < elsewhere.size(); ++i)
    if (elsewhere[i] != 0) all.elsewhere.push_back(static_cast<Index>(i));
  all.samples = 0;
  for (const Index samples : all.file_samples) {
    all.samples += samples;
    require_countable({all.samples, all.sample.per_sample()}, "data set '" + spec.samples + "' of all files");
  }
  all.label_type = label_storage(spec.form);
  all.remembered = sources.remembered();
  return all;
}

}  // namespace mrmf
