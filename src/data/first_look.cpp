#include "src/data/first_look.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bitset>
#include <cctype>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "io/axis_order.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "io/labels.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr Index kFewChannels = 16;  // an axis as short as this may be one of channels
constexpr Index kMostClasses = 256;
constexpr Index kMostMarks = 200;        // classes of positions: more are rather an image of bytes
constexpr std::size_t kFewNumbers = 16;  // as few different numbers as this are hardly measured ones
constexpr double kLeastShare = 0.75;     // of the classes, which must occur

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// What kind of character a word is made of: a word ends where the kind changes, but for "Mask", which is one.
enum class Letter { none, small, capital };

Letter letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isupper(byte) ? Letter::capital : std::isalpha(byte) ? Letter::small : Letter::none;
}

const std::vector<std::string> kTrain{"train", "training"};
const std::vector<std::string> kHeldOut{"val", "valid", "validation", "test", "testing", "dev"};

bool is_one_of(const std::string& word, const std::vector<std::string>& words) {
  return std::ranges::any_of(
      words, [&](const std::string& one) { return word == one || word == one + "s" || word == one + "es"; });
}

// The words of a name in small letters: "Train/yTrue_2" has train, y and true, and "xtest" has x and test.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  const auto end_word = [&](std::string word) {
    if (word.empty()) return;
    word = lower(word);
    const std::string rest = word.substr(1);
    const bool glued = (word[0] == 'x' || word[0] == 'y') && (is_one_of(rest, kTrain) || is_one_of(rest, kHeldOut));
    if (glued) words.push_back(word.substr(0, 1));
    words.push_back(glued ? rest : word);
  };
  std::string word;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const Letter here = letter(name[i]), before = i == 0 ? Letter::none : letter(name[i - 1]);
    const bool next_small = i + 1 < name.size() && letter(name[i + 1]) == Letter::small;
    const bool starts = here == Letter::capital && (before == Letter::small || next_small);
    if (here == Letter::none || starts) {
      end_word(word);
      word.clear();
    }
    if (here != Letter::none) word += name[i];
  }
  end_word(word);
  return words;
}

bool has_any(const std::string& name, const std::vector<std::string>& words) {
  return std::ranges::any_of(words_of(name), [&](const std::string& word) { return is_one_of(word, words); });
}

// The validation partner of a training data set: the same name with another word in place of "train".
std::string partner(const std::string& name, const std::vector<FileArray>& arrays) {
  const std::size_t at = lower(name).find("train");
  if (at == std::string::npos) return "";
  for (const std::string word : {"training", "train"})
    for (const std::string other : {"validation", "valid", "val", "dev", "test"}) {
      if (lower(name).compare(at, word.size(), word) != 0) continue;
      const std::string wanted = lower(name.substr(0, at)) + other + lower(name.substr(at + word.size()));
      for (const FileArray& array : arrays)
        if (lower(array.name) == wanted) return array.name;
    }
  return "";
}

std::string list(const std::vector<FileArray>& arrays) {
  std::vector<std::string> texts;
  for (const FileArray& array : arrays)
    texts.push_back(fmt::format("'{}' ({}) of {}", array.name, fmt::join(array.shape, ", "), array.type_name));
  return texts.empty() ? "no array" : fmt::format("{}", fmt::join(texts, ", "));
}

const FileArray& named(const std::vector<FileArray>& arrays, const std::string& name, const std::string& path) {
  const auto found = std::ranges::find(arrays, name, &FileArray::name);
  if (found == arrays.end()) throw DataError(path + ": there is no array '" + name + "'; there are " + list(arrays));
  return *found;
}

bool readable(const FileArray& array) { return array.type != ElementType::other && array.rows() > 1; }

bool named_like_labels(const std::string& name) {
  if (has_any(name, {"label", "target", "class", "mask", "param", "parameter", "par", "truth", "groundtruth", "gt",
                     "kind", "seg", "segmentation", "annotation"}))
    return true;
  const std::vector<std::string> words = words_of(name.substr(name.rfind('/') + 1));
  return !words.empty() && words.front() == "y";
}

// The array with the most numbers per row: rather one that is not named like labels, and for training.
const FileArray* choose_samples(const std::vector<FileArray>& arrays) {
  const FileArray* best = nullptr;
  const auto rank = [](const FileArray& array) { return std::tuple(!named_like_labels(array.name), array.per_row()); };
  for (const FileArray& array : arrays) {
    if (!readable(array) || array.shape.size() < 2 || array.shape.size() > 5) continue;
    if (has_any(array.name, kHeldOut) && !has_any(array.name, kTrain)) continue;
    if (best == nullptr || rank(array) > rank(*best)) best = &array;
  }
  return best;
}

// Another array with as many rows: rather one named like labels, then the one with fewer numbers per row.
const FileArray* choose_labels(const std::vector<FileArray>& arrays, const FileArray& samples) {
  const FileArray* best = nullptr;
  const auto rank = [&](const FileArray& array) {
    const bool apart = has_any(array.name, {"split", "fold", "id", "index", "indices", "row", "time", "timestamp"});
    const bool trains = has_any(array.name, kTrain) == has_any(samples.name, kTrain);
    return std::tuple(!trains, apart, !named_like_labels(array.name), array.per_row());
  };
  for (const FileArray& array : arrays) {
    if (!readable(array) || array.name == samples.name || array.rows() != samples.rows()) continue;
    if (best == nullptr || rank(array) < rank(*best)) best = &array;
  }
  return best;
}

// data.axes for a shape; "" where channels come last.
std::string guess_axes(const FileArray& samples, std::vector<std::string>& reasons) {
  const std::vector<Index> sizes(samples.shape.begin() + 1, samples.shape.end());
  const auto axes = sizes.size();
  const std::string positions[] = {"", "x", "y x", "z y x"};
  const auto say = [&](const std::string& what, const std::string& order) {
    reasons.push_back(fmt::format("'{}' ({}) is taken for {}", samples.name, fmt::join(samples.shape, ", "), what));
    return order;
  };
  if (axes == 1 && sizes[0] < 2 * kFewChannels) return say("features without positions", "");
  if (axes == 1) return say("series without an axis of channels", "n x");
  const Index others = *std::min_element(sizes.begin() + 1, sizes.end());
  const Index before = *std::min_element(sizes.begin(), sizes.end() - 1);
  if (sizes.back() <= kFewChannels && sizes.back() < before) return say("samples with channels last", "");
  if (sizes.front() <= kFewChannels && sizes.front() < others)
    return say("samples with channels first", "n c " + positions[axes - 1]);
  if (axes < 4) return say("samples without an axis of channels", "n " + positions[axes]);
  return say("samples with channels last", "");
}

/// What labels of all files hold.
struct Values {
  bool whole = true, from_0_to_1 = true;
  double least = 0, most = 0;
  Index count = 0;
  std::bitset<kMostClasses> classes;  ///< which of the whole numbers from 0 on there are
  std::set<float> others;             ///< of all other numbers a few

  void add(float value) {
    if (!std::isfinite(value)) return;
    least = count == 0 ? value : std::min<double>(least, value);
    most = count == 0 ? value : std::max<double>(most, value);
    ++count;
    const bool is_whole = value == std::floor(value);
    whole = whole && is_whole;
    from_0_to_1 = from_0_to_1 && (value == 0 || value == 1);
    if (is_whole && value >= 0 && value < kMostClasses)
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

Values values_of(const std::vector<std::string>& paths, const std::string& labels) {
  Values all;
  for (const std::string& path : paths) {
    const Hdf5File file = Hdf5File::open(path, Comm::self());
    const DatasetInfo info = file.info(labels);
    const FileArray array{labels, info.shape, info.type, info.type_name};
    const Index width = array.per_row(), step = std::max<Index>(1, (Index{1} << 20) / std::max<Index>(1, width));
    for (Index row = 0; row < array.rows(); row += step) {
      std::vector<float> values(static_cast<std::size_t>(std::min(step, array.rows() - row) * width));
      file.read_rows(labels, row, std::min(step, array.rows() - row), values);
      for (const float value : values) all.add(value);
    }
  }
  return all;
}

bool is_integer(ElementType type) {
  return type != ElementType::float16 && type != ElementType::float32 && type != ElementType::float64;
}

/// How labels lie beside samples.
struct LabelLayout {
  bool positions = false;  ///< one or more per position
  Index width = 1;         ///< numbers per sample or position
  bool single = false;     ///< (n, W) with samples of W positions: one per position if they are classes
};

Shape sample_shape(const FileArray& samples, const AxisOrder& order) {
  const std::vector<Index> sizes = channels_last(samples.shape, order, "'" + samples.name + "'");
  Shape shape;
  shape.axes = static_cast<int>(sizes.size()) - 2;
  if (shape.axes < 0 || shape.axes > 3)
    throw DataError(
        fmt::format("'{}' has {} axes; samples are (n, features) or (n, 1 to 3 axes of positions, channels)",
                    samples.name, sizes.size()));
  for (std::size_t axis = 1; axis + 1 < sizes.size(); ++axis) shape.spatial[axis + 4 - sizes.size()] = sizes[axis];
  shape.channels = sizes.back();
  return shape;
}

LabelLayout layout_of(const FileArray& labels, const FileArray& samples, const std::string& axes) {
  const AxisOrder order = parse_axes(axes);
  const Shape sample = sample_shape(samples, order);
  const std::size_t count = labels.shape.size(), spatial = static_cast<std::size_t>(sample.axes);
  LabelLayout layout;
  layout.positions = spatial > 0 && count > 2 && count >= spatial + 1;
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

// Classes are whole numbers from 0 on in integers, fewer than there are labels.
void guess_labels(const std::string& path, const FileArray& labels, const LabelLayout& layout, const Values& values,
                  FirstLook& look) {
  const bool whole = is_integer(labels.type) && values.whole;
  const bool one = layout.width == 1 || (layout.single && whole);
  const bool positions = layout.positions || (layout.single && whole);
  const std::string of = positions ? "per position" : "per sample";
  const Index most = std::min(positions ? kMostMarks : kMostClasses, values.count);
  look.outputs = layout.width;
  if (whole && one && dense(values) && values.most < static_cast<double>(most)) {
    look.kind = LabelKind::classes;
    look.outputs = static_cast<Index>(values.most) + 1;
    look.reasons.push_back(fmt::format("'{}' holds whole numbers of 0 to {:g}: {} classes, one {}", labels.name,
                                       values.most, look.outputs, of));
    const Index absent = look.outputs - static_cast<Index>(values.distinct());
    if (absent > 0) look.reasons.push_back(fmt::format("{} of these classes never occur", absent));
    return;
  }
  const std::string per = layout.positions ? "per position" : "per sample";
  if (is_integer(labels.type) && values.from_0_to_1 && layout.width > 1) {
    look.kind = LabelKind::probabilities;
    look.reasons.push_back(
        fmt::format("'{}' holds zeros and ones: yes or no for {} outputs {}", labels.name, layout.width, per));
    return;
  }
  const bool few = whole && one && values.distinct() > 1 && values.distinct() <= kFewNumbers;
  if (few && layout.positions)
    throw DataError(
        fmt::format("{}: '{}' holds the whole numbers {} per position, and classes are 0, 1, 2 and so on without gaps; "
                    "store them as 0 to {}, or, if one of them says that there is no label, write a configuration that "
                    "names it in training.ignore",
                    path, labels.name, fmt::join(values.listed(), ", "), values.distinct() - 1));
  look.reasons.push_back(fmt::format("'{}' holds numbers of {:g} to {:g}: {} {}", labels.name, values.least,
                                     values.most, layout.width, per));
  if (few)
    look.reasons.push_back(
        fmt::format("these are only {}; if they are classes, store them as 0 to {}, or name a value without label in "
                    "training.ignore",
                    fmt::join(values.listed(), ", "), values.distinct() - 1));
  else if (whole && one && values.least >= 0 && values.others.empty() && !dense(values))
    look.reasons.push_back(
        fmt::format("these are {} different whole numbers; if they are classes, store them as 0 to {}",
                    values.distinct(), values.distinct() - 1));
}

}  // namespace

Index FileArray::per_row() const {
  return shape.empty() ? 0 : std::accumulate(shape.begin() + 1, shape.end(), Index{1}, std::multiplies<>());
}

std::vector<FileArray> arrays_of(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path, Comm::self());
  std::vector<FileArray> arrays;
  for (const std::string& name : all_datasets(path)) {
    const DatasetInfo info = file.info(name);
    if (!info.shape.empty()) arrays.push_back({name, info.shape, info.type, info.type_name});
  }
  return arrays;
}

FirstLook look_at_files(const std::vector<std::string>& paths, const GivenNames& given) {
  const std::string& path = paths.front();
  const std::vector<FileArray> arrays = arrays_of(path);
  FirstLook look;
  const FileArray* samples = given.samples.empty() ? choose_samples(arrays) : &named(arrays, given.samples, path);
  if (samples == nullptr)
    throw DataError(path + ": no array looks like samples, of two to five axes and several rows; there are " +
                    list(arrays));
  const FileArray* labels = given.labels.empty() ? choose_labels(arrays, *samples) : &named(arrays, given.labels, path);
  if (labels == nullptr)
    throw DataError(
        fmt::format("{}: '{}' looks like samples, and no other array has its {} rows to be labels; there are "
                    "{}; name them with --samples and --labels",
                    path, samples->name, samples->rows(), list(arrays)));
  look.samples = samples->name;
  look.labels = labels->name;
  look.validation_samples = partner(look.samples, arrays);
  look.validation_labels = partner(look.labels, arrays);
  if (look.validation_samples.empty() || look.validation_labels.empty())
    look.validation_samples = look.validation_labels = "";
  look.axes = given.axes.empty() ? guess_axes(*samples, look.reasons) : given.axes;
  guess_labels(path, *labels, layout_of(*labels, *samples, look.axes), values_of(paths, look.labels), look);
  return look;
}

}  // namespace mrmf
