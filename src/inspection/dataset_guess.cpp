#include "src/inspection/dataset_guess.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "io/files/text.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

std::string shown(const FileArray& array) { return fmt::format("'{}' ({})", array.name, fmt::join(array.shape, ", ")); }

// What a name that is no array holds, where that is a sparse matrix, as SciPy, AnnData and 10x store it; "" where not.
std::string sparse_text(const std::vector<FileArray>& arrays, const std::string& group) {
  const auto holds = [&](const char* part) {
    return std::ranges::find(arrays, (group.empty() ? "" : group + "/") + part, &FileArray::name) != arrays.end();
  };
  if (!holds("data") || !holds("indices") || !holds("indptr")) return "";
  return fmt::format("{} is a sparse matrix (data, indices and indptr): store it as one array, such as X.toarray()",
                     group.empty() ? "the file" : "'" + group + "'");
}

const FileArray& named(const std::vector<FileArray>& arrays, const std::string& name, const std::string& path) {
  const auto found = std::ranges::find(arrays, name, &FileArray::name);
  if (found != arrays.end()) return *found;
  if (const std::string sparse = sparse_text(arrays, name); !sparse.empty()) throw DataError(path + ": " + sparse);
  throw DataError(path + ": there is no array '" + name + "'; there are " + list_of(arrays));
}

// Why nothing looks like samples, where that can be told; "" where not.
std::string why_no_samples(const std::vector<FileArray>& arrays) {
  for (const FileArray& array : arrays) {
    if (!array.name.ends_with("indptr")) continue;
    const std::size_t slash = array.name.rfind('/');
    const std::string group = slash == std::string::npos ? "" : array.name.substr(0, slash);
    if (std::string sparse = sparse_text(arrays, group); !sparse.empty()) return sparse;
  }
  const FileArray* most = nullptr;  // the largest that is none
  for (const FileArray& array : arrays)
    if ((array.type_name == "reference" || array.type_name == "compound") &&
        (most == nullptr || array.rows() * array.per_row() > most->rows() * most->per_row()))
      most = &array;
  return most == nullptr ? "" : why_no_numbers(*most);
}

bool may_be_samples(const FileArray& array) {
  return holds_rows_of_numbers(array) && array.shape.size() >= 2 && array.shape.size() <= 5;
}

// The array with the most numbers per row: rather one that is not named like labels, and for training. A mask is as
// large as its image, and of integers. What lies in the file itself comes before what it links to.
Choice choose_samples(const std::vector<FileArray>& arrays, const std::string& path) {
  std::vector<const FileArray*> candidates;
  for (const FileArray& array : arrays)
    if (may_be_samples(array) && !is_only_held_out(array.name)) candidates.push_back(&array);
  if (candidates.empty()) return {};
  const auto size = [](const FileArray& array) { return std::tuple(!is_like_labels(array.name), array.per_row()); };
  const auto rank = [&](const FileArray* array) {
    return std::tuple(size(*array), !array->integer(), array->file == path);
  };
  Choice choice{*std::ranges::max_element(candidates, {}, rank), {}};
  choice.add_others(candidates, [&](const FileArray& array) { return size(array) == size(*choice.best); });
  return choice;
}

// What there is under names that lead to nothing that could be read, a few; "" where there is nothing.
std::string broken_text(const FileNames& names) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> texts;
  for (const BrokenLink& link : names.broken)
    if (texts.size() < kMost) texts.push_back(link.text());
  if (names.broken.size() > kMost) texts.push_back(fmt::format("and {} more", names.broken.size() - kMost));
  return fmt::format("{}", fmt::join(texts, "; "));
}

const FileArray& find_samples(const std::vector<FileArray>& arrays, const FileNames& names, const std::string& path,
                              DatasetGuess& guess) {
  const Choice choice = choose_samples(arrays, path);
  if (choice.best != nullptr) {
    choice.tell("samples", guess.reasons);
    return *choice.best;
  }
  for (const FileArray& array : arrays)
    if (may_be_samples(array))
      throw DataError(
          fmt::format("{}: {} is named as data for validation or tests; if it is to train, name it with "
                      "--samples {}",
                      path, shown(array), array.name));
  if (const std::string why = why_no_samples(arrays); !why.empty())
    throw DataError(path + ": no array looks like samples, and " + why);
  const std::string broken = broken_text(names);
  throw DataError(path + ": no array looks like samples, of two to five axes and several rows; " +
                  (broken.empty() ? "" : broken + "; ") + "there are " + list_of(arrays));
}

const FileArray* partner(const FileArray& train, const std::string& word, const std::vector<FileArray>& arrays) {
  for (const std::string& name : partner_names(train.name, word))
    for (const FileArray& array : arrays)
      if (in_small_letters(array.name) == name) return &array;
  return nullptr;
}

bool alike(const FileArray& a, const FileArray& b) {
  return a.shape.size() == b.shape.size() && std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

// The pair of data sets named as those of training, with one other word in the place of "train" in both.
void find_validation(const std::vector<FileArray>& arrays, const FileArray& samples, const FileArray& labels,
                     DatasetGuess& guess) {
  std::string lonely;
  for (const std::string word : {"validation", "valid", "val", "dev", "test"}) {
    if (!guess.validation_samples.empty() && word != "test") continue;
    const FileArray* const x = partner(samples, word, arrays);
    const FileArray* const y = partner(labels, word, arrays);
    if (x == nullptr) continue;
    const bool pair = y != nullptr && x->rows() > 0 && x->rows() == y->rows() && alike(*x, samples) &&
                      alike(*y, labels) && (y->type != ElementType::other || (y->words && labels.words)) &&
                      x->type != ElementType::other;
    if (!pair) {
      if (lonely.empty()) lonely = x->name;
      continue;
    }
    if (!guess.validation_samples.empty()) {  // the test's, of three
      guess.reasons.push_back(fmt::format(
          "'{0}' and '{1}' are not used; to score a trained model on them, write test = {{ samples = \"{0}\", labels = "
          "\"{1}\" }} below validation, and use mrmf evaluate --split test",
          x->name, y->name));
      break;
    }
    guess.validation_samples = x->name;
    guess.validation_labels = y->name;
    guess.reasons.push_back(fmt::format("'{}' and '{}' validate", x->name, y->name));
  }
  if (!lonely.empty())
    guess.reasons.push_back(fmt::format("'{}' is not used: there are no labels that fit it as '{}' fits '{}'", lonely,
                                        labels.name, samples.name));
}

/// Arrays by the names by which attributes of others call them.
class NamedArrays {
 public:
  explicit NamedArrays(std::vector<FileArray>& arrays) {
    for (FileArray& array : arrays) by_name_.emplace(array.name, &array);
  }

  /// The nearest of this name: in the group of the array that names it, or in one around that. Null where there is
  /// none.
  FileArray* find(const std::string& name, const std::string& by) const {
    if (name.starts_with('/')) return at(name.substr(1));
    std::string group = by.substr(0, by.rfind('/') + 1);
    for (;;) {
      if (FileArray* const found = at(group + name); found != nullptr || group.empty()) return found;
      group.pop_back();
      group.erase(group.rfind('/') + 1);
    }
  }

 private:
  FileArray* at(const std::string& path) const {
    const auto found = by_name_.find(path);
    return found == by_name_.end() ? nullptr : found->second;
  }

  std::map<std::string, FileArray*> by_name_;
};

// Bounds have their coordinate's positions, and for each of them some corners.
bool are_bounds(const FileArray& bounds, const FileArray& coordinate) {
  return bounds.shape.size() == coordinate.shape.size() + 1 &&
         std::equal(coordinate.shape.begin(), coordinate.shape.end(), bounds.shape.begin());
}

void mark_others(const FileArray& by, const ArrayRoles& roles, const NamedArrays& arrays) {
  const std::string& name = by.name;
  for (const std::string& bounds : roles.bounds)
    if (FileArray* const array = arrays.find(bounds, name); array != nullptr && are_bounds(*array, by))
      array->scale = true;
  for (const std::string& ancillary : roles.ancillary)
    if (FileArray* const array = arrays.find(ancillary, name); array != nullptr && array != &by)
      array->ancillary = true;
  for (const std::string& coordinate : roles.coordinates)
    if (FileArray* const array = arrays.find(coordinate, name);
        array != nullptr && array != &by && array->no_label.empty() && !is_like_labels(array->name))
      array->no_label =
          fmt::format("is a coordinate, as the attribute coordinates of '{}' says (--labels takes it)", name);
}

}  // namespace

std::vector<FileArray> facts_of(const Hdf5File& file, const std::vector<std::string>& paths) {
  std::vector<FileArray> arrays;
  std::vector<ArrayRoles> roles;
  for (const std::string& path : paths) {
    DatasetInfo info = file.info(path);
    arrays.push_back({path, info.shape, info.type, info.type_name, info.words, info.whole, info.packing, info.may_miss,
                      info.scale, info.unclear, info.file});
    const std::string& times = info.roles.times;
    if (!times.empty()) arrays.back().no_label = fmt::format("holds times, by its units \"{}\"", times);
    roles.push_back(std::move(info.roles));
  }
  const NamedArrays named_arrays(arrays);
  for (std::size_t i = 0; i < arrays.size(); ++i) mark_others(arrays[i], roles[i], named_arrays);
  return arrays;
}

namespace {

// All data sets of these names but single values, and those that the user names, who may call one by another of its
// names.
std::vector<FileArray> arrays_of(const std::string& path, const FileNames& names, const GivenNames& given) {
  const Hdf5File file = Hdf5File::open(path, Comm::self(), given.packing);
  std::map<std::string, std::string> called;
  for (const std::string& name : {given.samples, given.labels})
    if (!name.empty()) called[first_name(names, path, name)] = name;
  std::vector<std::string> looked_at = names.datasets;
  for (const auto& [name, by_user] : called)
    if (std::ranges::find(looked_at, name) == looked_at.end() && file.has(name)) looked_at.push_back(name);
  std::vector<FileArray> arrays = facts_of(file, looked_at);
  std::erase_if(arrays, [](const FileArray& array) { return array.shape.empty(); });
  for (FileArray& array : arrays)
    if (const auto other = called.find(array.name); other != called.end()) array.name = other->second;
  return arrays;
}

// Where an attribute is the label, all others of fractional numbers are outputs, too.
void add_attributes(const std::vector<FileArray>& arrays, const FileArray& labels,
                    const std::vector<std::string>& paths, DatasetGuess& guess) {
  const auto owner = [](const FileArray& array) { return array.name.substr(0, array.name.find('@')); };
  const auto serves = [&](const FileArray& array) {
    return array.attribute && owner(array) == owner(labels) && !array.integer() && array.type != ElementType::other &&
           !is_like_row_numbers(array.called()) && array.name != guess.split_column;
  };
  if (!serves(labels)) return;
  for (const FileArray& array : arrays)
    if (serves(array) && array.name != labels.name && learnable_from(array, paths, guess).nothing.empty())
      guess.more_labels.push_back(array.name);
  if (!guess.more_labels.empty())
    guess.reasons.push_back(fmt::format("the attributes '{}', '{}' are the labels; choose others with --labels",
                                        labels.name, fmt::join(guess.more_labels, "', '")));
}

}  // namespace

Index FileArray::per_row() const {
  return shape.empty() ? 0 : std::accumulate(shape.begin() + 1, shape.end(), Index{1}, std::multiplies<>());
}

DatasetGuess guess_datasets(const std::vector<std::string>& paths, const GivenNames& given) {
  const std::string& path = paths.front();
  const FileNames names = users_names(path);
  const RowLayout layout = find_rows(paths, names, arrays_of(path, names, given), given);
  const std::vector<FileArray>& arrays = layout.arrays;
  DatasetGuess guess;
  guess.rows = layout.rows;
  guess.groups = layout.groups;
  guess.validation_groups = layout.validation_groups;
  guess.reasons = layout.reasons;
  for (const BrokenLink& link : names.broken) guess.reasons.push_back("not used: " + link.text());
  guess.packing = given.packing;
  const FileArray& samples =
      given.samples.empty() ? find_samples(arrays, names, path, guess) : named(arrays, given.samples, path);
  if (samples.type == ElementType::other) throw DataError(path + ": " + why_no_numbers(samples));
  std::vector<std::string> of_axes;
  guess.axes = given.axes;  // labels may have positions
  if (given.axes.empty()) guess.axes = guess_axes(samples, axes_named_in(path, layout, samples), of_axes);
  const std::vector<FileArray>& columns = guess.rows == RowsBy::axis ? arrays : layout.columns;
  if (guess.validation_groups.empty()) find_split_column(columns, samples, paths, guess);
  const std::string hint = layout.hint().empty() ? broken_text(names) : layout.hint();
  const FileArray& labels =
      given.labels.empty() ? find_labels(arrays, samples, paths, hint, guess) : named(arrays, given.labels, path);
  if (given.labels.empty() && layout.constants.contains(labels.name))
    throw DataError(
        fmt::format("{}: '{}' is the same everywhere and cannot be the labels; {}; mend that, or name the data "
                    "sets with --samples and --labels",
                    path, labels.name, layout.why_not));
  if (lies_turned(labels, samples.rows())) throw DataError(path + ": " + why_no_labels({labels}, samples));
  guess.samples = samples.name;
  guess.may_miss = samples.may_miss;
  guess.labels = labels.name;
  if (guess.rows == RowsBy::axis) find_validation(arrays, samples, labels, guess);
  if (!guess.validation_groups.empty()) guess.validation_samples = samples.name, guess.validation_labels = labels.name;
  if (given.labels.empty()) add_attributes(arrays, labels, paths, guess);
  if (!guess.validation_samples.empty()) guess.split_column.clear(), guess.split_arrays = {};  // data sets of their own
  if (guess.split_column == guess.labels) guess.split_column.clear();                          // as the user says
  if (guess.validation_samples.empty() && guess.split_column.empty() && guess.split_arrays.empty())
    find_group_column(columns, samples, labels, paths, guess);
  if (guess.validation_samples.empty() && guess.split_arrays.empty() && !guess.no_split_arrays.empty())
    guess.reasons.push_back(guess.no_split_arrays);
  if (!guess.split_arrays.empty())
    guess.reasons.push_back(fmt::format(
        "'{}' and '{}' say which rows train and which validate{}", guess.split_arrays.train,
        guess.split_arrays.validation,
        guess.split_arrays.test.empty() ? "" : fmt::format(", and '{}' which ones test", guess.split_arrays.test)));
  if (!guess.split_column.empty())
    guess.reasons.push_back(fmt::format("'{}' says what rows are for: those of {} validate", guess.split_column,
                                        guess.split_validation.empty()
                                            ? "another number than 0"
                                            : fmt::format("{}", fmt::join(guess.split_validation, ", "))));
  guess.reasons.insert(guess.reasons.end(), of_axes.begin(), of_axes.end());
  guess_labels(paths, labels, samples, guess);
  return guess;
}

std::string group_advice(const DatasetSpec& spec) {
  if (spec.rows != RowsBy::axis) return "";
  const std::string& path = spec.files.front();
  GivenNames given;
  given.samples = spec.samples, given.labels = spec.labels, given.packing = spec.packing;
  const std::vector<FileArray> arrays = arrays_of(path, users_names(path), given);
  const auto at = [&](const std::string& name) { return std::ranges::find(arrays, name, &FileArray::name); };
  const auto samples = at(spec.samples), labels = at(spec.labels);
  if (samples == arrays.end() || labels == arrays.end()) return "";
  DatasetGuess found;
  found.packing = spec.packing;
  find_group_column(arrays, *samples, *labels, {path}, found);
  if (found.group_column.empty()) return found.reasons.empty() ? "" : found.reasons.front();
  return fmt::format("{}, if data.split says so: split = {{ by = \"groups\", column = \"{}\", validation = 0.2 }}",
                     found.reasons.front(), found.group_column);
}

}  // namespace mrmf
