#include "src/data/first_look.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <tuple>

#include "io/axis_order.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "kernels/check.hpp"

namespace mrmf {
namespace {

constexpr Index kFewChannels = 16;  // an axis as short as this may be one of channels
constexpr Index kMostClasses = 256;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool has_any(const std::string& name, const std::vector<std::string>& words) {
  const std::string text = lower(name);
  return std::ranges::any_of(words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
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
  const std::string text = lower(name.substr(name.rfind('/') + 1));
  return has_any(text, {"label", "target", "class", "mask", "param", "truth", "kind"}) || text.ends_with("par") ||
         text == "y" || text.starts_with("y_");
}

// The array with the most numbers per row: rather one that is not named like labels, and for training.
const FileArray* choose_samples(const std::vector<FileArray>& arrays) {
  const FileArray* best = nullptr;
  const auto rank = [](const FileArray& array) { return std::tuple(!named_like_labels(array.name), array.per_row()); };
  for (const FileArray& array : arrays) {
    if (!readable(array) || array.shape.size() < 2 || array.shape.size() > 5) continue;
    if (has_any(array.name, {"val", "test", "dev"}) && !has_any(array.name, {"train"})) continue;
    if (best == nullptr || rank(array) > rank(*best)) best = &array;
  }
  return best;
}

// Another array with as many rows: rather one named like labels, then the one with fewer numbers per row.
const FileArray* choose_labels(const std::vector<FileArray>& arrays, const FileArray& samples) {
  const FileArray* best = nullptr;
  const auto rank = [&](const FileArray& array) {
    const bool apart = has_any(array.name, {"split", "fold", "id", "index", "row", "time"});
    const bool trains = has_any(array.name, {"train"}) == has_any(samples.name, {"train"});
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

/// What labels hold.
struct Values {
  bool whole = true, from_0_to_1 = true;
  double least = 0, most = 0;
};

Values values_of(const std::string& path, const FileArray& labels) {
  const Hdf5File file = Hdf5File::open(path, Comm::self());
  const Index step = std::max<Index>(1, (Index{1} << 20) / std::max<Index>(1, labels.per_row()));
  Values all;
  bool first = true;
  for (Index row = 0; row < labels.rows(); row += step) {
    std::vector<float> values(static_cast<std::size_t>(std::min(step, labels.rows() - row) * labels.per_row()));
    file.read_rows(labels.name, row, std::min(step, labels.rows() - row), values);
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      all.least = first ? value : std::min<double>(all.least, value);
      all.most = first ? value : std::max<double>(all.most, value);
      first = false;
      all.whole = all.whole && value == std::floor(value);
      all.from_0_to_1 = all.from_0_to_1 && (value == 0 || value == 1);
    }
  }
  return all;
}

bool is_integer(ElementType type) {
  return type != ElementType::float16 && type != ElementType::float32 && type != ElementType::float64;
}

// Classes are whole numbers from 0 on in integers, fewer than there are rows.
void guess_labels(const std::string& path, const FileArray& labels, const FileArray& samples, FirstLook& look) {
  const AxisOrder order = parse_axes(look.axes);
  const bool alone = order.given() && order.channel < 0;
  const std::size_t spatial = samples.shape.size() - (alone ? 1 : 2);  // axes of positions
  const bool positions = spatial > 0 && labels.shape.size() > 2 && labels.shape.size() >= spatial + 1;
  const bool last_axis = positions ? labels.shape.size() == spatial + 2 : labels.shape.size() == 2;
  const bool first = positions && last_axis && order.moves();
  const Index width = !last_axis ? 1 : first ? labels.shape[1] : labels.shape.back();
  const Values values = values_of(path, labels);
  const std::string of = positions ? "per position" : "per sample";
  const bool integers = is_integer(labels.type);
  const bool classes = integers && values.whole && values.least >= 0 && values.most >= 1 &&
                       values.most < static_cast<double>(std::min(kMostClasses, labels.rows())) && width == 1;
  look.outputs = width;
  if (classes) {
    look.kind = LabelKind::classes;
    look.outputs = static_cast<Index>(values.most) + 1;
    look.reasons.push_back(fmt::format("'{}' holds whole numbers of 0 to {:g}: {} classes, one {}", labels.name,
                                       values.most, look.outputs, of));
  } else if (integers && values.from_0_to_1 && width > 1) {
    look.kind = LabelKind::probabilities;
    look.reasons.push_back(
        fmt::format("'{}' holds zeros and ones: yes or no for {} outputs {}", labels.name, width, of));
  } else {
    look.reasons.push_back(
        fmt::format("'{}' holds numbers of {:g} to {:g}: {} {}", labels.name, values.least, values.most, width, of));
  }
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

FirstLook look_at_file(const std::string& path, const GivenNames& given) {
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
  guess_labels(path, *labels, *samples, look);
  return look;
}

}  // namespace mrmf
