// Data sets of the input files that predictions have beside them (`mrmf predict --append`).
#include "src/inference/appended_data.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "io/files/text.hpp"
#include "io/hdf5/library_and_types.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
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
