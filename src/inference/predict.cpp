// `mrmf predict`: the outputs of trained models in a file, and the data sets of the input files that stand beside them
// (--append).
#include "src/inference/evaluate_and_predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "io/files/text.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/hdf5/output.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/split.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "layers/model.hpp"
#include "src/config/key_table.hpp"
#include "src/data/classes.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostAttribute = 60000;  // bytes
const std::vector<std::string> kOwnNames{"prediction", "probability", "deviation", "class", "file", "row", "files"};

// The shape of a data set with so many numbers for each position of every sample's output; 0: without an axis for them.
std::vector<Index> data_shape(Index samples, const Shape& output, Index channels) {
  std::vector<Index> shape{samples};
  shape.insert(shape.end(), output.spatial.end() - output.axes, output.spatial.end());
  if (channels > 0) shape.push_back(channels);
  return shape;
}

// Which row of which file these samples are.
void write_sources(Hdf5Output& out, const StoredRows& stored, Range samples) {
  std::vector<std::uint32_t> files, rows;
  stored.for_each_run(samples, [&](const RowRun& run) {
    for (Index row = run.rows.first; row < run.rows.first + run.rows.count; ++row) {
      files.push_back(static_cast<std::uint32_t>(run.file));
      rows.push_back(static_cast<std::uint32_t>(row));
    }
  });
  out.write_rows("file", samples.first, std::span<const std::uint32_t>(files));
  out.write_rows("row", samples.first, std::span<const std::uint32_t>(rows));
}

/// Mean and standard deviation (n - 1) of values that come one set after the other (Welford).
class Spread {
 public:
  void add(ConstSpan values) {
    if (count_++ == 0) mean_.assign(values.size(), 0), squares_.assign(values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double before = values[i] - mean_[i];
      mean_[i] += before / count_;
      squares_[i] += before * (values[i] - mean_[i]);
    }
  }
  int count() const { return count_; }
  std::vector<float> mean() const { return {mean_.begin(), mean_.end()}; }
  std::vector<float> deviation() const {
    std::vector<float> result(squares_.size());
    for (std::size_t i = 0; i < result.size(); ++i)
      result[i] = static_cast<float>(std::sqrt(squares_[i] / (count_ - 1)));
    return result;
  }
  void clear() { count_ = 0; }

 private:
  int count_ = 0;
  std::vector<double> mean_, squares_;
};

/// Writes the outputs of one model, or mean and deviation of several passes, in the labels' own units. Of classes and
/// of yes or no, means are of probabilities. Where the samples are not simply the rows of one file, "file" and "row"
/// say what they are.
class Predictions {
 public:
  Predictions(const PredictOptions& options, const Trained& t, AppendedData& appended, Hdf5Output& file)
      : t_(t),
        appended_(appended),
        file_(file),
        stored_(t.shape),
        wanted_(static_cast<int>(t.models.size()) * options.passes.of_each()),
        sources_(!t.shape.rows.empty() || t.spec.files.size() > 1) {
    const Index samples = t.shape.samples, channels = t.output().channels;
    std::vector<std::string> of_outputs{"prediction"}, others;
    if (wanted_ > 1) of_outputs.emplace_back("deviation");
    if (t.task() != Task::regression) of_outputs.emplace_back("probability");
    for (const std::string& name : of_outputs)
      file.create_dataset(name, data_shape(samples, t.output(), channels), ElementType::float32);
    const auto create = [&](const std::string& name, const std::vector<Index>& shape, ElementType type) {
      file.create_dataset(name, shape, type);
      others.push_back(name);
    };
    if (t.task() == Task::classes) create("class", data_shape(samples, t.output(), 0), ElementType::uint16);
    if (sources_) {
      for (const char* name : {"file", "row"}) create(name, {samples}, ElementType::uint32);
      file.write_text("files", fmt::format("{}", fmt::join(t.spec.files, "\n")));
    }
    // What a reader of the labels needs to put them beside these: the axes of samples, and of labels with positions.
    if (!t.spec.axes.empty()) file.write_attribute("label_axes", t.spec.axes);
    if (const auto ignore = t.config.training.ignore) file.write_attribute("ignored_label", std::to_string(*ignore));
    const std::string values = write_values(t.config.training.class_values);
    if (!values.empty() && values.size() < kMostAttribute) file.write_attribute("class_values", values);
    if (const std::vector<std::string>& names = names_of(t.config); !names.empty())
      write_names(t.task() == Task::classes ? "class_names" : "label_names", names);
    appended.create(file);
    others.insert(others.end(), appended.names().begin(), appended.names().end());
    describe(of_outputs, others);
  }

  /// Adds a batch of every model's every pass over the same rows, one after the other.
  void add(const BatchResult& batch) {
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end());
    undo(batch.by.labels, 0, y);
    if (wanted_ == 1) return write(batch.first, y, probability(y));
    spread_.add(t_.task() == Task::regression ? y : probability(y));
    if (spread_.count() < wanted_) return;
    const std::vector<float> mean = spread_.mean();
    file_.write_rows("deviation", batch.first, spread_.deviation());
    write(batch.first, mean, mean);
    spread_.clear();
  }

  /// "180 rows; prediction and probability 180x3, class, file, row": the data sets, for people.
  const std::string& made() const { return made_; }

 private:
  // As a list in JSON, unless that is longer than an attribute can be.
  void write_names(const char* attribute, const std::vector<std::string>& names) {
    const std::string list = nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (list.size() < kMostAttribute) file_.write_attribute(attribute, list);
  }
  void describe(const std::vector<std::string>& of_outputs, const std::vector<std::string>& others) {
    const Index samples = t_.shape.samples;
    made_ = fmt::format("{} row{}; {}", samples, samples == 1 ? "" : "s", of_outputs.front());
    for (std::size_t i = 1; i < of_outputs.size(); ++i)
      made_ += (i + 1 < of_outputs.size() ? ", " : " and ") + of_outputs[i];
    made_ += fmt::format(" {}x{}", samples, to_string(t_.output()));
    for (const std::string& name : others) made_ += ", " + name;
  }

  std::vector<float> probability(ConstSpan y) const {
    if (t_.task() == Task::regression) return {};
    return probabilities(t_.task(), t_.output().channels, y);
  }

  void write(Index first, ConstSpan y, ConstSpan probability) {
    const Range samples{first, std::ssize(y) / t_.output().per_sample()};
    file_.write_rows("prediction", first, y);
    if (t_.task() != Task::regression) file_.write_rows("probability", first, probability);
    if (t_.task() == Task::classes) file_.write_rows("class", first, predicted_classes(t_.output().channels, y));
    if (sources_) write_sources(file_, stored_, samples);
    appended_.write(file_, samples);
  }

  const Trained& t_;
  AppendedData& appended_;
  Hdf5Output& file_;
  StoredRows stored_;
  int wanted_;  // passes over a batch
  bool sources_;
  Spread spread_;
  std::string made_;
};

void require_dropout(const PredictOptions& options, const Trained& t) {
  const Passes& passes = options.passes;
  if (passes.dropout == 0) return;
  if (passes.dropout == 1 && t.models.size() == 1)
    throw ConfigError(
        "predict --dropout 1: one pass says nothing of how far passes differ; give 2 or more, such as 30");
  for (const TrainedModel& one : t.models)
    if (!drops(one.model->network()))
      throw ConfigError("predict --dropout: the network of " + one.name +
                        " has no dropout, so all passes would be the same; leave it out, and give runs of other seeds "
                        "instead (predict RUN1 RUN2 ...)");
}

// "; mean and deviation of 3 runs, 20 passes with dropout each"
std::string spread_text(const PredictOptions& options, std::size_t models) {
  const int passes = options.passes.dropout;
  if (models < 2 && passes == 0) return "";
  const std::string of_dropout = fmt::format("{} {} with dropout", passes, passes == 1 ? "pass" : "passes");
  if (models < 2) return "; mean and deviation of " + of_dropout;
  return fmt::format("; mean and deviation of {} models{}", models, passes > 0 ? ", " + of_dropout + " each" : "");
}

}  // namespace

std::string predict(const PredictOptions& options, Comm& world) {
  Trained t = open_trained(options.model, LabelUse::unread, world);
  require_dropout(options, t);
  AppendedData appended(options.model.append, kOwnNames, t.spec, t.shape, world);
  Hdf5Output file(options.model.output, options.model.replace, world);
  Predictions predictions(options, t, appended, file);
  collective_try(world,
                 [&] { for_each_batch(t, options.passes, [&](const BatchResult& batch) { predictions.add(batch); }); });
  file.commit();
  return predictions.made() + spread_text(options, t.models.size());
}

// Data sets of the input files that predictions have beside them (`mrmf predict --append`).

namespace {

constexpr Index kCached = Index{1} << 26;  // bytes of unpacked chunks
constexpr Index kAtOnce = Index{1} << 26;  // bytes that are copied at once
constexpr Index kWords = Index{1} << 16;   // words that are copied at once

// "/group//x" is "group/x".
std::string plain(const std::string& name) {
  std::string path;
  for (std::size_t first = 0; first < name.size();) {
    const std::size_t end = std::min(name.find('/', first), name.size());
    const std::string part = name.substr(first, end - first);
    if (!part.empty() && part != ".") path += (path.empty() ? "" : "/") + part;
    first = end + 1;
  }
  if (path.empty()) throw ConfigError("--append '" + name + "': name a data set of the input files");
  return path;
}

// Whether both cannot be in one file: they are the same, or one would be a group and a data set.
bool collide(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + "/") || b.starts_with(a + "/");
}

std::vector<std::string> checked(const std::vector<std::string>& names, const std::vector<std::string>& taken) {
  std::vector<std::string> plain_names;
  for (const std::string& name : names) {
    const std::string path = plain(name);
    for (const std::string& own : taken)
      if (collide(path, own))
        throw ConfigError("--append " + name + ": predict may write '" + own +
                          "' itself; give the data set another name in the input files (h5copy)");
    for (const std::string& other : plain_names)
      if (collide(path, other))
        throw ConfigError("--append " + name + ": '" + other + "' is there already; leave one out");
    plain_names.push_back(path);
  }
  return plain_names;
}

DatasetSpec packed_as(DatasetSpec spec, PackingRule packing) {
  spec.packing = packing;
  return spec;
}

// Whole numbers of which some are missing are copied as they are stored: they may be the names of things, of which
// float32 knows too few. All files must say alike that nothing else is to be done to them.
PackingRule packing_of(const DatasetSpec& spec, const DatasetShape& shape, const std::string& name) {
  const RowSources packed(spec, &shape, {name}, {1, kCached});
  const RowSources stored(packed_as(spec, PackingRule::ignore), &shape, {name}, {1, kCached});
  bool marked = false;
  for (std::size_t f = 0; f < spec.files.size(); ++f) {
    const auto open = packed.at(f);
    const Packing& packing = open->front()->packing();
    if (!packing.whole()) return spec.packing;
    marked = marked || !packing.plain();
    if (packing.stored != stored.at(f)->front()->type()) return spec.packing;  // _Unsigned says what they mean
  }
  return marked ? PackingRule::ignore : spec.packing;
}

// What all files say of one of the data sets, beside its numbers.
class SaidOfAll {
 public:
  /// DataError where another file, or another group, says something else.
  void add(const std::string& where, const RowSource::Common& common) {
    const std::string units = readable_text(common.units);
    if (!units_.empty() && !units.empty() && !same_units(units_, units))
      throw DataError(where + " is in " + units + ", and " + with_units_ + " in " + units_ +
                      "; --append needs the same units in every file");
    if (units_.empty()) units_ = units, with_units_ = where;
    for (const auto& [first, names] : common.names) add_names(first, names);
  }
  /// The values of the enumeration that is the type everywhere; none: it is another type somewhere.
  std::map<Index, std::string> values() const { return enumerations_ ? values_ : std::map<Index, std::string>{}; }

 private:
  void add_names(const std::string& where, const NumberNames& names) {
    const LabelNames more = LabelNames::from({.values = names.values}, where, {.kind = LabelKind::classes}, 1);
    if (const std::string text = contradiction(names_, more); !text.empty())
      throw DataError(text + "; --append needs the same names in every file");
    names_.add(more);
    const auto own = names.type_values();
    enumerations_ = enumerations_ && !own.empty();
    values_.insert(own.begin(), own.end());
  }

  std::string units_, with_units_;
  LabelNames names_;
  std::map<Index, std::string> values_;
  bool enumerations_ = true;
};

// What says how arrays of one file belong together, which this file has no others of.
const std::vector<std::string> kOfDimensions{
    "CLASS",       "NAME",   "DIMENSION_LIST", "REFERENCE_LIST", "_Netcdf4Dimid",      "_Netcdf4Coordinates",
    "coordinates", "bounds", "grid_mapping",   "cell_measures",  "ancillary_variables"};

}  // namespace

AppendedData::AppendedData(const std::vector<std::string>& names, const std::vector<std::string>& taken,
                           const DatasetSpec& spec, const DatasetShape& shape, Comm& world)
    : names_(checked(names, taken)), spec_(spec), stored_(shape) {
  for (const std::string& name : names_) {
    Column column;
    collective_try(world, [&] {
      if (world.root()) column = inspect(name, shape);
    });
    std::vector<Index> words(column.shape);
    words.push_back(column.text);
    words.push_back(static_cast<Index>(column.packing));
    words.push_back(static_cast<Index>(column.type));
    Index size = std::ssize(words);
    world.broadcast(std::span(&size, 1), 0);
    words.resize(static_cast<std::size_t>(size));
    world.broadcast(std::span(words), 0);
    column.type = static_cast<ElementType>(words.back());
    words.pop_back();
    column.packing = static_cast<PackingRule>(words.back());
    words.pop_back();
    column.text = words.back();
    words.pop_back();
    column.shape = words;
    column.sources = std::make_unique<RowSources>(packed_as(spec_, column.packing), &shape, std::vector{name},
                                                  RowSources::Limits{1, kCached, column.text > 0});
    columns_.push_back(std::move(column));
  }
}

AppendedData::Column AppendedData::inspect(const std::string& name, const DatasetShape& shape) const {
  if (auto words = inspect_words(name, shape)) return std::move(*words);
  Column column;
  SaidOfAll said;
  std::string first;  // file
  const PackingRule packing = packing_of(spec_, shape, name);
  const RowSources sources(packed_as(spec_, packing), &shape, {name}, {1, kCached});
  for (std::size_t f = 0; f < spec_.files.size(); ++f) {
    const auto open = sources.at(f);
    const RowSource& reader = *open->front();
    const std::string& where = reader.where();
    if (reader.shape().front() != stored_.rows_of_file(f))
      throw DataError(where + " has " + std::to_string(reader.shape().front()) + " rows, and '" + spec_.samples +
                      "' has " + std::to_string(stored_.rows_of_file(f)) +
                      "; --append copies data sets with a row per sample");
    said.add(where, reader.require_alike(spec_.missing == MissingRule::refuse));
    std::vector<Index> all = reader.shape();
    all.front() = shape.samples;
    if (f == 0) {
      column = {.shape = all, .type = reader.type(), .packing = packing};
      first = spec_.files[f];
    } else if (all != column.shape) {
      throw DataError(where + " has rows of shape " + shape_text({all.begin() + 1, all.end()}) + ", and those in " +
                      first + " of " + shape_text({column.shape.begin() + 1, column.shape.end()}) +
                      "; --append needs the same in every file");
    } else if (reader.type() != column.type) {
      throw DataError(where + " holds " + to_string(reader.type()) + ", and that in " + first + " " +
                      to_string(column.type) + "; --append needs one type in every file");
    }
  }
  if (!is_float(column.type)) column.values = said.values();
  return column;
}

// Ids and names: as many bytes are kept of each as the longest of all files has.
std::optional<AppendedData::Column> AppendedData::inspect_words(const std::string& name,
                                                                const DatasetShape& shape) const {
  const RowSources sources(spec_, &shape, {name}, {1, kCached, true});
  Column column{.shape = {shape.samples}, .type = ElementType::uint8, .text = 1};
  for (std::size_t f = 0; f < spec_.files.size(); ++f) {
    const auto open = sources.at(f);
    const RowSource& reader = *open->front();
    if (!reader.holds_words()) {
      if (f == 0) return {};
      throw DataError(reader.where() + " holds numbers, and that in " + spec_.files.front() +
                      " words; --append needs one type in every file");
    }
    const Index rows = reader.shape().front();
    if (rows != stored_.rows_of_file(f) || reader.row_elements() != 1)
      throw DataError(reader.where() + " has " + shape_text(reader.shape()) + " words, and '" + spec_.samples +
                      "' has " + std::to_string(stored_.rows_of_file(f)) +
                      " rows; --append copies data sets with one per sample");
    for (Index first = 0; first < rows; first += kWords)
      for (const std::string& word : reader.words(first, std::min(kWords, rows - first)))
        column.text = std::max(column.text, std::ssize(word));
  }
  return column;
}

void AppendedData::create(Hdf5Output& out) const {
  for (std::size_t c = 0; c < names_.size(); ++c)
    if (columns_[c].text > 0)
      out.create_texts(names_[c], columns_[c].shape, columns_[c].text);
    else
      out.create_enumeration(names_[c], columns_[c].shape, columns_[c].type, columns_[c].values);
  if (spec_.rows != RowsBy::axis) return;
  for (std::size_t c = 0; c < names_.size(); ++c)
    if (names_[c].find('@') == std::string::npos) copy_attributes(out, names_[c], columns_[c]);
}

// Those of the first file. What says how its numbers are stored is not so of other files' numbers.
void AppendedData::copy_attributes(Hdf5Output& out, const std::string& name, const Column& column) const {
  std::vector<std::string> except = kOfDimensions;
  if (column.packing == PackingRule::apply || spec_.files.size() > 1)
    std::ranges::copy(h5::packing_attributes(), std::back_inserter(except));
  out.copy_attributes(spec_.files.front(), {name}, except);
}

void AppendedData::copy_words(const RowSource& from, Range rows, const Destination& to, Index bytes) {
  for (Index done = 0; done < rows.count; done += kWords) {
    const std::vector<std::string> words = from.words(rows.first + done, std::min(kWords, rows.count - done));
    rows_.assign(words.size() * static_cast<std::size_t>(bytes), std::byte{0});
    for (std::size_t i = 0; i < words.size(); ++i)
      std::ranges::copy(std::as_bytes(std::span(words[i])),
                        rows_.begin() + static_cast<std::ptrdiff_t>(i) * static_cast<std::ptrdiff_t>(bytes));
    to.out.write_rows(to.name, to.first + done, std::span<const std::byte>(rows_));
  }
}

void AppendedData::copy(const RowSource& from, Range rows, const Destination& to) {
  const Index most = std::max<Index>(1, kAtOnce / std::max<Index>(1, from.row_bytes()));
  for (Index done = 0; done < rows.count; done += most) {
    const Index count = std::min(most, rows.count - done);
    rows_.resize(static_cast<std::size_t>(count * from.row_bytes()));
    from.read(rows.first + done, count, rows_.data());
    to.out.write_rows(to.name, to.first + done, std::span<const std::byte>(rows_));
  }
}

void AppendedData::write(Hdf5Output& out, Range samples) {
  for (std::size_t c = 0; c < names_.size(); ++c) {
    const Column& column = columns_[c];
    Index done = samples.first;
    stored_.for_each_run(samples, [&](const RowRun& run) {
      const auto open = column.sources->at(run.file);
      const Destination to{out, names_[c], done};
      if (column.text > 0)
        copy_words(*open->front(), run.rows, to, column.text);
      else
        copy(*open->front(), run.rows, to);
      done += run.rows.count;
    });
  }
}

}  // namespace mrmf
