// Shape and checks of a data set from its files' headers alone, and whether all ranks see the same files.
#include "io/dataset.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "io/axis_order.hpp"
#include "io/class_values.hpp"
#include "io/file_patterns.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_library.hpp"
#include "io/hdf5_rows.hpp"
#include "io/input_file.hpp"
#include "io/labels.hpp"
#include "io/limits.hpp"
#include "io/not_finite.hpp"
#include "io/split_column.hpp"
#include "mpi/comm.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mrmf {
namespace {

std::string place(const std::string& file, const std::string& dataset) { return file + ": data set '" + dataset + "'"; }

/// The shape of one sample from (n, F) or (n, spatial..., C), or as data.axes names its axes.
Shape require_sample_shape(const std::vector<Index>& stored, const AxisOrder& order, const std::string& where) {
  const std::vector<Index> shape = channels_last(stored, order, where);
  if (shape.size() < 2 || shape.size() > 5)
    throw DataError(where + " has shape " + shape_text(shape) +
                    "; samples are (n, features) or (n, 1 to 3 spatial axes, channels); data.axes names other axes");
  for (std::size_t axis = 1; axis < shape.size(); ++axis)
    if (shape[axis] < 1)
      throw DataError(where + " has shape " + shape_text(shape) + "; a sample holds nothing: make the file again");
  return sample_shape(shape);
}

void check_type(const DatasetInfo& info, const std::string& where) {
  if (info.type == ElementType::other)
    throw DataError(where + " holds " + info.type_name + " elements; " + readable_types());
}

/// The shape of one sample's labels. Classes are single numbers, so that an axis less than the samples' has is enough
/// for their positions; the same goes for numbers, unless these axes could also be one of outputs.
Shape label_shape(const DatasetInfo& labels, const Shape& sample, const DatasetSpec& spec, bool one_hot,
                  const std::string& where) {
  const LabelForm& form = spec.form;
  const AxisOrder order = parse_axes(spec.axes);
  const bool move = labels_move(labels.shape, sample, order);
  const std::vector<Index> all = move ? channels_last(labels.shape, order, where) : labels.shape;
  const auto refuse = [&](const std::string& wanted) {
    throw DataError(where + " has shape " + shape_text(labels.shape) + "; " + wanted);
  };
  const bool empty = all.empty() || std::find(all.begin() + 1, all.end(), 0) != all.end();
  if (empty) refuse("labels are (n) or (n, outputs), or have positions as the samples do");
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
      refuse("a sample has one class: labels are (n), or one-hot rows of a single 1 and zeros, or have positions as " +
             std::string("the samples do"));
    return shape;
  }
  const bool without_channels = axes == sample.axes;
  if (!without_channels && axes != sample.axes + 1)
    refuse(std::string(classes ? "labels are (n)" : "labels are (n) or (n, outputs)") +
           ", or have positions as the samples (" + to_string(sample) + ") do");
  shape.axes = sample.axes;
  shape.channels = without_channels ? 1 : all.back();
  for (int axis = 0; axis < shape.axes; ++axis)
    shape.spatial[static_cast<std::size_t>(3 - shape.axes + axis)] = all[static_cast<std::size_t>(1 + axis)];
  if (classes && shape.channels != 1)
    refuse("a position has one class: store its number, with a last axis of 1 or none, or one-hot");
  return shape;
}

/// Sets the shape of labels in `shape`, from the file's headers and, where they may be one-hot, its first rows.
void inspect_labels(const Hdf5File& file, const std::string& path, const DatasetSpec& spec, DatasetShape& shape) {
  const std::string where = place(path, spec.labels);
  const DatasetInfo labels = file.info(spec.labels);
  if (labels.words && spec.form.kind == LabelKind::classes && spec.form.values.empty())
    throw DataError(where + " holds words; name them in training.class_values, in the order of the classes");
  if (!labels.words || !holds_words(spec.form)) check_type(labels, where);
  shape.one_hot = one_hot_width(path, labels, shape, spec);
  shape.label = label_shape(labels, shape.sample, spec, shape.one_hot > 0, where);
  if (labels.rows() != shape.samples)
    throw DataError(where + " has " + std::to_string(labels.rows()) + " rows for " + std::to_string(shape.samples) +
                    " samples; each sample needs its row of labels");
  require_countable({shape.samples, shape.label.per_sample() * std::max<Index>(1, shape.one_hot)}, where);
}

/// One of a file's data sets of samples, without labels.
DatasetShape inspect_samples(const Hdf5File& file, const std::string& path, const std::string& name,
                             const DatasetSpec& spec) {
  const std::string where = place(path, name);
  const DatasetInfo samples = file.info(name);
  check_type(samples, where);
  DatasetShape shape;
  shape.sample = require_sample_shape(samples.shape, parse_axes(spec.axes), where);
  shape.samples = samples.rows();
  shape.type = kept_as(samples.type);
  const RowReader reader(path, name, kMostCached, spec.packing);
  if (reader.type() != shape.type)
    shape.converted = size_of(reader.type());
  else if (!reader.packing().in_place())
    shape.converted = size_of(reader.packing().stored);
  shape.chunks = reader.chunk_memory();
  if (shape.samples == 0) throw DataError(where + " is empty (0 samples); leave that file out");
  if (spec.missing == MissingRule::refuse) file.require_written(name);
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

/// One file. The `n` of the sample's shape is 0.
DatasetShape inspect_file(const std::string& path, const DatasetSpec& spec) {
  const Hdf5File file = Hdf5File::open(path, Comm::self(), spec.packing);
  DatasetShape shape = inspect_samples(file, path, spec.samples, spec);
  for (const std::string& name : spec.more_samples) {
    const DatasetShape more = inspect_samples(file, path, name, spec);
    if (more.samples != shape.samples || more.sample.spatial != shape.sample.spatial ||
        more.sample.axes != shape.sample.axes)
      throw DataError(place(path, name) + " has " + std::to_string(more.samples) + " samples of " +
                      to_string(more.sample) + ", and '" + spec.samples + "' " + std::to_string(shape.samples) +
                      " of " + to_string(shape.sample) + "; only their channels may differ");
    shape.sample.channels += more.sample.channels;
    join_storage(shape, more);
  }
  if (spec.mask) ++shape.sample.channels;
  if (spec.labels.empty()) return shape;
  inspect_labels(file, path, spec, shape);
  if (spec.missing == MissingRule::refuse) file.require_written(spec.labels);
  return shape;
}

std::string classes_text(Index one_hot) {
  return one_hot > 0 ? "one-hot rows of " + std::to_string(one_hot) + " classes" : "numbers of classes";
}

DatasetShape inspect_files(const DatasetSpec& spec) {
  if (spec.files.empty()) throw ConfigError("data.files is empty; name at least one HDF5 file");
  DatasetShape total;
  for (const std::string& path : spec.files) {
    if (is_pattern(path))
      throw ConfigError("data.files: no file matches " + path + "; correct the pattern, or the folder to start from");
    const DatasetShape one = inspect_file(path, spec);
    if (total.file_samples.empty()) {
      total.sample = one.sample;
      total.label = one.label;
      total.one_hot = one.one_hot;
      total.type = one.type;
    }
    join_storage(total, one);
    if (one.sample != total.sample)
      throw DataError(place(path, spec.samples) + " has samples of " + to_string(one.sample) + ", but " +
                      spec.files.front() + " has " + to_string(total.sample) + "; leave one of them out");
    if (one.one_hot != total.one_hot)
      throw DataError(place(path, spec.labels) + " holds " + classes_text(one.one_hot) + ", and " + spec.files.front() +
                      " " + classes_text(total.one_hot) + "; leave one of them out");
    if (one.label != total.label)
      throw DataError(place(path, spec.labels) + " has " + to_string(one.label) + " labels per sample, but " +
                      spec.files.front() + " has " + to_string(total.label) + "; leave one of them out");
    total.samples += one.samples;
    require_countable({total.samples, total.sample.per_sample()}, "data set '" + spec.samples + "' of all files");
    total.file_samples.push_back(one.samples);
  }
  return total;
}

/// The headers of all files: every row a sample.
DatasetShape inspect_headers(const DatasetSpec& spec, Comm& comm) {
  std::string names;
  for (const std::string& file : spec.files) names += file + "\n";
  if (!comm.agree(XXH3_64bits(names.data(), names.size())))
    throw FaultError("the ranks see different files for data.files (" + std::to_string(spec.files.size()) +
                     " on rank " + std::to_string(comm.rank()) + "); is the file system the same on every node?");
  DatasetShape shape;
  collective_try(comm, [&] {
    if (comm.root()) shape = inspect_files(spec);
  });
  const Extent &spatial = shape.sample.spatial, &labels = shape.label.spatial;
  std::vector<std::int64_t> words{shape.samples,
                                  shape.label.channels,
                                  shape.sample.channels,
                                  shape.sample.axes,
                                  spatial[0],
                                  spatial[1],
                                  spatial[2],
                                  static_cast<std::int64_t>(shape.type),
                                  shape.chunks.cache,
                                  shape.chunks.unpacking,
                                  shape.converted,
                                  shape.label.axes,
                                  labels[0],
                                  labels[1],
                                  labels[2],
                                  shape.one_hot};
  comm.broadcast(std::span(words), 0);
  shape.file_samples.resize(spec.files.size());
  comm.broadcast(std::span(shape.file_samples), 0);
  shape.samples = words[0];
  shape.label = {0, {words[12], words[13], words[14]}, words[1], static_cast<int>(words[11])};
  shape.sample = {0, {words[4], words[5], words[6]}, words[2], static_cast<int>(words[3])};
  shape.type = static_cast<ElementType>(words[7]);
  shape.chunks = {words[8], words[9]};
  shape.converted = words[10];
  shape.one_hot = words[15];
  shape.label_type = label_storage(spec.form);
  return shape;
}

/// Leaves rows out of a shape that has them all.
void keep_rows(DatasetShape& shape, std::vector<Index> rows) {
  if (shape.file_rows.empty()) shape.file_rows = shape.file_samples;
  shape.samples = std::ssize(rows);
  shape.file_samples.assign(shape.file_rows.size(), 0);
  std::size_t file = 0;
  Index end = shape.file_rows.front();
  for (const Index row : rows) {
    while (row >= end) end += shape.file_rows[++file];
    ++shape.file_samples[file];
  }
  shape.rows = std::move(rows);
}

std::string why_no_row(const RowChoice& choice, const std::string& part) {
  if (choice.column.empty()) return "it has only one; give more samples";
  if (!choice.validation_roles.empty()) return "data.split names no rows of '" + choice.column + "' for it";
  return "'" + choice.column + "' has " + (part == "training" ? "no 0" : "only zeros") +
         ", and rows of 0 train, all others validate";
}

/// Of a split: the rows of its part, chosen by the root.
void choose(const DatasetSpec& spec, DatasetShape& shape, Comm& comm) {
  if (spec.choice.part == RowPart::all) return;
  std::vector<Index> rows;
  collective_try(comm, [&] {
    if (!comm.root()) return;
    SplitColumn column;
    if (!spec.choice.column.empty()) {
      column = read_split_column(spec.files, spec.choice.column, shape.file_samples, spec.packing);
      shape.unused = unused_text(spec.choice, column);
    }
    rows = choose_rows(spec.choice, shape.samples, column);
  });
  Index count = std::ssize(rows);
  comm.broadcast(std::span(&count, 1), 0);
  rows.resize(static_cast<std::size_t>(count));
  comm.broadcast(std::span(rows), 0);
  comm.broadcast(shape.unused, 0);
  keep_rows(shape, std::move(rows));
  if (shape.samples > 0) return;
  const std::string part = spec.choice.part == RowPart::train ? "training" : "validation";
  throw DataError("data set '" + spec.samples + "' leaves no row for " + part + ": " + why_no_row(spec.choice, part));
}

}  // namespace

DatasetShape without_rows(DatasetShape shape, const DatasetSpec& spec, const std::vector<Index>& rows) {
  shape.skipped = rows;
  if (rows.empty()) return shape;
  std::vector<Index> all = shape.rows, rest;
  if (all.empty()) {
    all.resize(static_cast<std::size_t>(shape.samples));
    std::iota(all.begin(), all.end(), Index{0});
  }
  std::ranges::set_difference(all, shape.skipped, std::back_inserter(rest));
  if (rest.empty())
    throw DataError("data set '" + spec.samples + "' has no sample that is finite: all " +
                    std::to_string(shape.skipped.size()) + " rows hold NaN or infinity, or their labels do");
  keep_rows(shape, std::move(rest));
  return shape;
}

DatasetShape inspect_dataset(const DatasetSpec& spec, Comm& comm) {
  DatasetShape shape = inspect_headers(spec, comm);
  choose(spec, shape, comm);
  if (spec.not_finite != NotFiniteRule::skip) return shape;
  const std::vector<Index> bad = rows_not_finite(spec, shape, comm);
  return without_rows(std::move(shape), spec, bad);
}

std::vector<std::string> skipped_texts(const DatasetSpec& spec, const DatasetShape& shape) {
  return rows_texts(spec, shape, shape.skipped);
}

std::vector<std::string> rows_texts(const DatasetSpec& spec, const DatasetShape& shape,
                                    const std::vector<Index>& rows) {
  const std::vector<Index>& file_rows = shape.file_rows.empty() ? shape.file_samples : shape.file_rows;
  std::vector<std::string> texts;
  Index start = 0;
  auto row = rows.begin();
  for (std::size_t i = 0; i < file_rows.size(); start += file_rows[i++]) {
    std::vector<Index> here;
    for (; row != rows.end() && *row < start + file_rows[i]; ++row) here.push_back(*row - start);
    if (!here.empty()) texts.push_back(spec.files[i] + ": " + ranges_text(here));
  }
  return texts;
}

namespace {

constexpr Index most_bytes = Index{1} << 16;  // read of one row

/// A consecutive piece from the middle of a row.
h5::Block middle(const std::vector<Index>& shape, Index row, Index element_bytes) {
  h5::Block piece{std::vector<Index>(shape.size(), 0), shape, 0};
  piece.first[0] = row;
  piece.count[0] = 1;
  Index inner = std::accumulate(shape.begin() + 1, shape.end(), element_bytes, std::multiplies<>());
  for (std::size_t axis = 1; axis < shape.size() && inner > most_bytes; ++axis) {
    inner /= shape[axis];
    piece.count[axis] = std::clamp<Index>(most_bytes / std::max<Index>(inner, 1), 1, shape[axis]);
    piece.first[axis] = (shape[axis] - piece.count[axis]) / 2;
    inner *= piece.count[axis];
  }
  piece.elements = std::accumulate(piece.count.begin(), piece.count.end(), Index{1}, std::multiplies<>());
  return piece;
}

class Digest {
 public:
  void add(const void* bytes, std::size_t count) { sum_ = XXH3_64bits_withSeed(bytes, count, sum_); }
  void add(Index number) { add(&number, sizeof number); }
  void add(const std::vector<Index>& numbers) {
    add(std::ssize(numbers));
    for (const Index number : numbers) add(number);
  }
  XXH64_hash_t sum() const { return sum_; }

 private:
  XXH64_hash_t sum_ = 0;
};

void add_dataset(Digest& digest, const std::string& path, hid_t file, const std::string& name, PackingRule packing) {
  const h5::Rows rows(path, file, name, kMostCached, packing);
  const h5::Storage& storage = rows.storage();
  digest.add(rows.shape());
  digest.add(static_cast<Index>(rows.type()));
  digest.add(storage.chunk);
  digest.add(storage.filtered ? 1 : 0);
  digest.add(storage.contiguous ? 1 : 0);
  const Index count = rows.shape().front();
  std::vector<std::byte> values;
  for (const Index row : {Index{0}, count / 3, 2 * (count / 3), count - 1}) {
    if (row < 0) return;
    const h5::Block piece = middle(rows.shape(), row, size_of(rows.type()));
    values.resize(static_cast<std::size_t>(piece.elements * size_of(rows.type())));
    rows.read(piece, values.data());
    digest.add(values.data(), values.size());
  }
}

std::int64_t digest_of(const std::string& path, const DatasetSpec& spec) {
  const h5::Lock lock;
  h5::silence();
  h5::check_readable(path);
  const h5::Properties access = h5::file_access();
  const h5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  h5::require(bool(file), path + ": cannot be opened");
  Digest digest;
  for (const std::string& name : spec.sample_names()) add_dataset(digest, path, file.get(), name, spec.packing);
  if (!spec.labels.empty() && !holds_words(spec.form)) add_dataset(digest, path, file.get(), spec.labels, spec.packing);
  return static_cast<std::int64_t>(digest.sum());
}

}  // namespace

void require_same_data(const DatasetSpec& spec, Comm& comm) {
  if (comm.size() == 1) return;
  std::vector<std::int64_t> mine;
  collective_try(comm, [&] {
    for (const std::string& path : spec.files) mine.push_back(digest_of(path, spec));
  });
  std::vector<std::int64_t> roots = mine;
  comm.broadcast(std::span(roots), 0);
  const auto differs = static_cast<Index>(std::ranges::mismatch(mine, roots).in1 - mine.begin());
  const auto first = static_cast<Index>(comm.min(static_cast<double>(differs)));
  if (first == std::ssize(mine)) return;
  const auto rank = static_cast<int>(comm.min(differs == first ? comm.rank() : comm.size()));
  throw DataError(spec.files[static_cast<std::size_t>(first)] + ": rank " + std::to_string(rank) +
                  " sees other contents than rank 0 (data set '" + spec.samples + "'" +
                  (spec.labels.empty() ? "" : " or '" + spec.labels + "'") + "); is it the same file on every node?");
}

}  // namespace mrmf
