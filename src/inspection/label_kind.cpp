// What labels are, by their values: classes, numbers, one-hot rows; declared in dataset_guess.hpp.
#include "src/inspection/dataset_guess.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/rows/class_values.hpp"
#include "io/rows/labels.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/class_names.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr Index kMostClasses = 256;
constexpr Index kMostMarks = 200;      // classes of positions: more are rather an image of bytes
constexpr Index kFewOdd = 10;          // at most one row of so many is odd by a slip
constexpr float kMostIgnored = 65535;  // the largest training.ignore, and the least but for its sign
constexpr float kExact = 16777216;     // 2^24: float32 tells smaller whole numbers apart
constexpr double kLeastShare = 0.75;   // share of the classes, which must occur

/// Adds the labels of a file, which lie as those of the first.
void add_values(const RowSource& labels, const LabelLayout& layout, LabelValues& all) {
  const Index width = labels.row_elements(), step = std::max<Index>(1, (Index{1} << 20) / std::max<Index>(1, width));
  std::vector<std::byte> raw;
  for (Index row = 0; row < labels.shape().front(); row += step) {
    const Index rows = std::min(step, labels.shape().front() - row);
    if (labels.holds_words()) {
      for (const std::string& word : labels.words(row, rows))
        if (++all.count; all.words.size() <= static_cast<std::size_t>(kMostClasses)) all.words.insert(word);
      continue;
    }
    std::vector<float> values(static_cast<std::size_t>(rows * width));
    raw.resize(static_cast<std::size_t>(rows * labels.row_bytes()));
    labels.read(row, rows, raw.data());
    to_float32(labels.type(), raw.data(), values);
    for (const float value : values) all.add(value);
    if (layout.width == 1) continue;
    if (layout.moves) {
      std::vector<float> moved(values.size());
      move_channels_last(*layout.moves, rows, sizeof(float), reinterpret_cast<const std::byte*>(values.data()),
                         reinterpret_cast<std::byte*>(moved.data()));
      values.swap(moved);
    }
    const auto wide = static_cast<std::size_t>(layout.width);
    for (std::size_t at = 0; at < values.size() && all.may_be_marks(); at += wide)
      all.add_label(ConstSpan(values).subspan(at, wide));
  }
}

/// Whether whole numbers are classes: nearly all from 0, or 1, to the largest occur. Numbers far apart are marks or
/// counts.
bool dense(const LabelValues& values) {
  const double first = values.least == 1 ? 1 : 0;
  return values.least >= 0 && values.most >= 1 && values.others.empty() &&
         static_cast<double>(values.distinct()) >= kLeastShare * (values.most + 1 - first);
}

/// What is known of labels beside their name.
struct Found {
  const FileArray& labels;
  LabelLayout layout;
  LabelValues values;
  LabelNames names{};      ///< what all files call the values of classes
  NumberNames of_first{};  ///< what the first says
  bool integer() const { return labels.integer(); }
  bool whole() const { return integer() && values.whole; }
  bool one() const { return layout.width == 1 || (layout.single && whole()); }
  /// Whether these are a label per position if they are classes.
  bool positions() const { return layout.positions || (layout.single && whole()); }
  /// Whether these are a few different whole numbers.
  bool few() const { return exact() && one() && values.distinct() > 1 && values.distinct() <= kFewNumbers; }
  /// Whether whole numbers are known as they are in the file.
  bool exact() const { return whole() && std::max(-values.least, values.most) < kExact; }
};

/// Classes, as labels keep them.
struct Classes {
  Index count = 0;
  std::vector<std::string> values{};  ///< training.class_values
  std::optional<int> ignore{};
  Index absent = 0;  ///< classes that never occur
  std::string how;   ///< what the labels hold
};

// Whole numbers from 1 on, or, where there is a 0 or no 1, from 0 on, nearly all of which occur, up to a largest that
// is no more than allowed.
std::optional<Classes> classes_from(const LabelValues& values, const Found& found) {
  // Numbers of which none occurs twice, or few do, name or count the samples.
  const auto distinct = static_cast<Index>(values.distinct());
  if (distinct == values.count || (distinct > static_cast<Index>(kFewNumbers) && 2 * distinct > values.count))
    return {};
  const int first = values.least == 1 ? 1 : 0;
  const Index most = std::min(found.positions() ? kMostMarks : kMostClasses, found.values.count);
  if (values.count == 0 || !values.others.empty() || values.most < first + 1 ||
      values.most + 1 - first > static_cast<double>(most))
    return {};
  const Index count = static_cast<Index>(values.most) + 1 - first;
  if (static_cast<double>(values.distinct()) < kLeastShare * static_cast<double>(count)) return {};
  Classes classes{.count = count, .absent = count - static_cast<Index>(values.distinct()), .how = ""};
  classes.how = fmt::format("whole numbers of {} to {:g}", first, values.most);
  for (Index c = 0; first != 0 && c < count; ++c) classes.values.push_back(fmt::format("{}", c + first));
  return classes;
}

// The same without a number that may stand for no label.
LabelValues without(const LabelValues& all, float value) {
  LabelValues rest = all;
  rest.others.erase(value);
  if (value >= 0 && value < LabelValues::kMostCounted) rest.classes.reset(static_cast<std::size_t>(value));
  const std::vector<float> left = rest.listed();
  rest.count = left.empty() ? 0 : all.count;
  if (!left.empty()) rest.least = left.front(), rest.most = left.back();
  return rest;
}

std::optional<Classes> whole_classes(const Found& found) {
  const LabelValues& values = found.values;
  if (!found.whole() || !found.one()) return {};
  if (auto classes = classes_from(values, found)) return classes;
  if (values.listed() == std::vector<float>{-1, 1})
    return Classes{.count = 2, .values = {"-1", "1"}, .ignore = {}, .absent = 0, .how = "-1 and 1"};
  if (found.positions() && values.distinct() == 2 && values.least == 0)  // masks of pictures are 0 and 255
    return Classes{2, {"0", fmt::format("{:.0f}", values.most)}, {}, 0, fmt::format("0 and {:.0f}", values.most)};
  constexpr float kMarked = 255;  // the last value of a byte
  const bool negative =
      values.others.size() == 1 && *values.others.begin() < 0 && *values.others.begin() >= -kMostIgnored;
  if (!negative && (values.most != kMarked || !values.others.empty())) return {};
  const float lacking = negative ? *values.others.begin() : kMarked;
  std::optional<Classes> classes = classes_from(without(values, lacking), found);
  if (!classes) return {};
  classes->ignore = static_cast<int>(lacking);
  classes->how += fmt::format(", and {:g}, which is taken for no label", lacking);
  return classes;
}

// Numbers in their own order, words in the alphabet's.
std::vector<std::string> in_order(const std::set<std::string>& words) {
  std::vector<std::string> all(words.begin(), words.end());
  if (std::ranges::all_of(all, [](const std::string& word) { return class_number(word).has_value(); }))
    std::ranges::stable_sort(all, {}, [](const std::string& word) { return *class_number(word); });
  return all;
}

std::optional<Classes> word_classes(const Found& found) {
  const LabelValues& values = found.values;
  const auto count = std::ssize(values.words);
  if (count < 2 || count > kMostClasses || 2 * count > values.count) return {};
  const auto numbers =
      std::ranges::count_if(values.words, [](const std::string& w) { return class_number(w).has_value(); });
  if (numbers != 0 && numbers != count)
    throw DataError(
        fmt::format("'{}' holds texts of which some are numbers and some are words ({}); store one or the "
                    "other, as training.class_values names them",
                    found.labels.name, fmt::join(values.words, ", ")));
  return Classes{.count = count,
                 .values = in_order(values.words),
                 .ignore = {},
                 .absent = 0,
                 .how = fmt::format("{} words", count)};
}

// The values of an enumeration name classes, whichever they are.
std::optional<Classes> enumerated_classes(const Found& found) {
  const LabelValues& values = found.values;
  const bool few = values.distinct() > 1 && values.others.size() <= kFewNumbers &&
                   static_cast<Index>(values.distinct()) <= kMostClasses;
  if (found.labels.type_name != "enumeration" || !found.exact() || !found.one() || !few) return {};
  Classes classes{.count = static_cast<Index>(values.distinct()), .how = "values of an enumeration"};
  for (const float value : values.listed()) classes.values.push_back(fmt::format("{:.0f}", value));
  return classes;
}

// A few whole numbers of which the file says what each is called, as flag_meanings (CF) do.
std::optional<Classes> named_classes(const Found& found) {
  if (!found.few()) return {};
  Classes classes{.count = static_cast<Index>(found.values.distinct()), .how = "numbers that the file has names for"};
  for (const float value : found.values.listed()) classes.values.push_back(fmt::format("{:.0f}", value));
  const LabelForm form{LabelKind::classes, classes.count, {}, CoarseLabels::shares, classes.values};
  const LabelNames first = LabelNames::from(found.of_first, "", form, 1);
  if (found.names.in_order(form, classes.count).empty() && first.in_order(form, classes.count).empty()) return {};
  return classes;
}

// Classes, and one number far from them that may stand for no label, which no training.ignore can be; "" where there is
// none.
std::string far_from_classes(const Found& found) {
  const LabelValues& values = found.values;
  if (!found.whole() || !found.one() || values.others.size() != 1) return "";
  const float far = *values.others.begin();
  const std::optional<Classes> classes = classes_from(without(values, far), found);
  if (std::abs(far) <= kMostIgnored || !classes) return "";
  return fmt::format(
      "'{}' holds {}, and {}, which may stand for no label; training.ignore is a number of -65535 to 65535: store -1 "
      "in its place",
      found.labels.name, classes->how,
      std::abs(far) < kExact ? fmt::format("{:.0f}", far) : fmt::format("a number near {:g}", far));
}

std::optional<Classes> classes_of(const Found& found);

// The values that an enumeration does not have are no classes: a single one may say that there is no label.
std::optional<Classes> without_strays(const Found& found, const std::vector<float>& strays) {
  const auto refuse = [&] {
    throw DataError(fmt::format("'{}' holds {}, which its enumeration does not have; correct these labels",
                                found.labels.name, fmt::join(strays, ", ")));
  };
  const float stray = strays.front();
  if (strays.size() > 1 || std::abs(stray) > kMostIgnored) refuse();
  Found rest = found;
  rest.values = without(found.values, stray);
  std::optional<Classes> classes = classes_of(rest);
  if (!classes) return {};
  if (classes->ignore) refuse();
  classes->ignore = static_cast<int>(stray);
  classes->how += fmt::format(", and {:g}, which the enumeration does not have and which is taken for no label", stray);
  return classes;
}

std::optional<Classes> classes_of(const Found& found) {
  const LabelValues& values = found.values;
  if (found.names.complete && found.whole() && found.one()) {
    std::vector<float> strays = values.listed();
    std::erase_if(strays, [&](float value) { return found.names.of.contains(static_cast<Index>(value)); });
    if (!strays.empty()) return without_strays(found, strays);
  }
  if (found.labels.words) return word_classes(found);
  if (found.layout.width > 1 && !found.layout.single && found.layout.width <= kMostClasses && values.one_hot &&
      values.count > 0)
    return Classes{.count = found.layout.width, .values = {}, .ignore = {}, .absent = 0, .how = "one-hot rows"};
  const std::optional<Classes> whole = whole_classes(found);
  const auto all_named = [&](const Classes& classes) {
    const LabelForm form{LabelKind::classes, classes.count, {}, CoarseLabels::shares, classes.values};
    return !found.names.in_order(form, classes.count).empty();
  };
  // Numbers with gaps between them, each of which has a name.
  if (whole && whole->absent > 0 && !whole->ignore && !all_named(*whole))
    if (std::optional<Classes> named = named_classes(found); named && all_named(*named)) return named;
  if (whole) return whole;
  if (std::optional<Classes> classes = enumerated_classes(found)) return classes;
  return named_classes(found);
}

// Classes some of which the file has names for, and others not: then none is called by its name. "" where there are
// none.
std::string unnamed_values(const Found& found) {
  if (found.labels.words || found.names.listed || !found.whole() || !found.one() || !found.few()) return "";
  std::vector<std::string> named, unnamed;
  for (const float value : found.values.listed())
    (found.names.of.contains(static_cast<Index>(value)) ? named : unnamed).push_back(fmt::format("{:.0f}", value));
  if (named.empty() || unnamed.empty()) return "";
  return fmt::format(
      "'{}' holds {}, for which the file has no name, as it has for {}, so all classes are told by their "
      "numbers",
      found.labels.name, fmt::join(unnamed, ", "), fmt::join(named, ", "));
}

// A class whose name in the file may say that there is no label, as R's NA does beside FALSE and TRUE; "" where there
// is none.
std::string named_like_none(const Found& found, const Classes& classes) {
  if (found.labels.words || !found.few() || classes.ignore) return "";
  std::vector<float> others = found.values.listed();
  const auto named_so = [&](float value) {
    const auto name = found.names.of.find(static_cast<Index>(value));
    return name != found.names.of.end() && may_say_no_label(name->second.text);
  };
  const auto none = std::ranges::find_if(others, named_so);
  if (none == others.end() || others.size() < 3 || std::abs(*none) > kMostIgnored) return "";
  const float value = *none;
  others.erase(none);
  return fmt::format(
      "'{}' is one of these classes, the number {:.0f}; if it says that there is no label, set training.ignore = "
      "{:.0f}, training.class_values = [{}] and {} outputs",
      found.names.of.at(static_cast<Index>(value)).text, value, value, fmt::join(others, ", "), others.size());
}

// Rows that are one-hot but for a few: whether these are a slip, only the user knows. "" where they are not.
std::string nearly_one_hot(const Found& found) {
  const LabelValues& values = found.values;
  if (found.layout.width < 2 || found.layout.single || found.layout.positions || values.not_one_hot == 0 ||
      values.not_one_hot * kFewOdd > values.labels)
    return "";
  return fmt::format(
      "{} of {} rows have a single 1 and else 0, as one-hot classes do, and {} such as row {} not: correct those rows "
      "if these are classes",
      values.labels - values.not_one_hot, values.labels, values.not_one_hot == 1 ? "one" : "others",
      values.first_not_one_hot);
}

// How to ask for classes where numbers may be some that were not taken for them; "" where they may not.
std::string hint(const Found& found) {
  const LabelValues& values = found.values;
  const std::size_t distinct = values.distinct();
  if (distinct == 1) return "these are all the same, from which there is nothing to learn";
  if (found.few())
    return fmt::format(
        "these are only {0}; if they are classes, set training.loss = \"cross_entropy\" and training.class_values = "
        "[{0}], and name a value without label in training.ignore",
        fmt::join(values.listed(), ", "));
  if (values.marked && values.marks && found.layout.width > 1 && !found.layout.single && distinct <= kFewNumbers)
    return fmt::format(
        "each row holds {:g} once and else {:g}; if these say which class it is, store 1 and 0 in their place, and set "
        "training.loss = \"cross_entropy\"",
        values.marks->second, values.marks->first);
  const bool rows = values.whole && found.one() && found.integer() && values.others.empty() && values.least >= 0;
  if (rows && static_cast<Index>(distinct) == values.count &&
      values.most - values.least + 1 == static_cast<double>(values.count))
    return fmt::format(
        "these count the samples from {:g} on, and there is nothing to learn from row numbers; name "
        "others with --labels",
        values.least);
  if (const std::string nearly = nearly_one_hot(found); !nearly.empty()) return nearly;
  const bool repeated = 2 * static_cast<Index>(distinct) <= values.count;
  if (distinct == 2 && repeated && found.one() && !found.integer() && values.whole && !dense(values) &&
      std::max(-values.least, values.most) < kExact)
    return fmt::format(
        "these are {0:.0f} and {1:.0f} in {2}, which are learned as numbers; if they are classes, set training.loss = "
        "\"cross_entropy\", training.class_values = [{0:.0f}, {1:.0f}] and 2 outputs, and leave out normalise.labels",
        values.least, values.most, found.labels.type_name);
  if (!values.whole || !(values.least >= 0) || !values.others.empty() || !repeated) return "";
  const std::string in = found.integer() ? "" : " in " + found.labels.type_name;
  if (values.from_0_to_1 && found.layout.width > 1)
    return fmt::format(
        "these are zeros and ones{}, which are learned as numbers; if they are yes or no, store them as integers, or "
        "set training.loss = \"binary_cross_entropy\" and leave out normalise.labels",
        in);
  if (!found.one()) return "";
  if (dense(values)) {
    const double first = values.least == 1 ? 1 : 0;
    return fmt::format(
        "these are whole numbers of {:g} to {:g}{}, which are learned as numbers; if they are classes, {}set "
        "training.loss = \"cross_entropy\"{} and {:g} outputs, and leave out normalise.labels",
        first, values.most, in, found.integer() ? "" : "store them as integers, or ",
        first == 1 ? ", name all of them in training.class_values," : "", values.most + 1 - first);
  }
  if (!found.integer()) return "";
  return fmt::format("these are {} different whole numbers; if they are classes, store them as 0 to {}", distinct,
                     distinct - 1);
}

void guess(const Found& found, const std::string& path, DatasetGuess& guesses) {
  const FileArray& labels = found.labels;
  const LabelLayout& layout = found.layout;
  const LabelValues& values = found.values;
  const auto say = [&](const std::string& reason) { guesses.reasons.push_back(reason); };
  guesses.outputs = layout.width;
  if (const std::optional<Classes> classes = classes_of(found)) {
    guesses.kind = LabelKind::classes;
    guesses.outputs = classes->count;
    guesses.class_values = classes->values;
    guesses.ignore = classes->ignore;
    say(fmt::format("'{}' holds {}: {} classes, one {}", labels.name, classes->how, guesses.outputs,
                    found.positions() ? "per position" : "per sample"));
    if (const std::string odd = values.odd_words(); !odd.empty()) say(odd);
    if (const std::string none = named_like_none(found, *classes); !none.empty()) say(none);
    if (const std::string unnamed = unnamed_values(found); !unnamed.empty() && !found.names.complete) say(unnamed);
    if (classes->absent > 0)
      say(fmt::format("{} of these classes never occur{}", classes->absent, classes->absent == 1 ? "s" : ""));
    if (classes->ignore && *classes->ignore < 0)
      say(
          fmt::format("if {} is a class of its own, leave out training.ignore and name all classes in "
                      "training.class_values",
                      *classes->ignore));
    return;
  }
  if (const std::string far = far_from_classes(found); !far.empty()) throw DataError(path + ": " + far);
  if (values.words.size() == 1)
    throw DataError(
        fmt::format("{}: '{}' holds one text alone, which is {}, and there is nothing to learn from it; name "
                    "other labels with --labels",
                    path, labels.name, values.words.begin()->empty() ? "empty" : "\"" + *values.words.begin() + "\""));
  if (!values.words.empty() && std::ranges::all_of(values.words, is_number_text))
    throw DataError(fmt::format("{}: '{}' holds texts such as \"{}\" and no numbers; store them as numbers", path,
                                labels.name, *values.words.begin()));
  if (labels.words)
    throw DataError(fmt::format(
        "{}: '{}' holds more different words than classes would have for so many samples; name other labels with "
        "--labels, or write a configuration that names the classes in training.class_values",
        path, labels.name));
  const std::string per = layout.positions ? "per position" : "per sample";
  if (found.integer() && values.from_0_to_1 && layout.width > 1) {
    guesses.kind = LabelKind::probabilities;
    say(fmt::format("'{}' holds zeros and ones: yes or no for {} outputs {}", labels.name, layout.width, per));
    if (const std::string nearly = nearly_one_hot(found); !nearly.empty()) say(nearly);
    return;
  }
  if (found.few() && layout.positions)
    throw DataError(fmt::format(
        "{}: '{}' holds the whole numbers {} per position, and classes are 0, 1, 2 and so on without gaps; "
        "write a configuration that names the classes in training.class_values, and one that says that there "
        "is no label in training.ignore",
        path, labels.name, fmt::join(values.listed(), ", ")));
  say(fmt::format("'{}' holds numbers of {:g} to {:g}: {} {}", labels.name, values.least, values.most, layout.width,
                  per));
  if (const std::string more = hint(found); !more.empty()) say(more);
}

/// Gathers the names of classes, of one file after the other.
class NamesOfFiles {
 public:
  explicit NamesOfFiles(Found& found) : found_(found) {}
  void add(const RowSource& labels) {
    const LabelForm form{.kind = LabelKind::classes};
    for (const auto& [where, names] : labels.require_alike(false).names) {
      if (first_) found_.of_first = names;
      // Lists may be of something else, as long as nobody knows how many classes there are.
      const LabelNames more =
          LabelNames::from({.values = names.values, .enumeration = names.enumeration}, where, form, 1);
      if (const std::string text = contradiction(found_.names, more); !text.empty())
        throw DataError(text + "; " + rename_text(more));
      if (first_) found_.names = more;
      found_.names.add(more);
      first_ = false;
    }
  }

 private:
  Found& found_;
  bool first_ = true;
};

}  // namespace

void guess_labels(const std::vector<std::string>& paths, const FileArray& labels, const FileArray& samples,
                  DatasetGuess& guesses) {
  const std::string& path = paths.front();
  if (labels.type_name == "compound") throw DataError(path + ": " + why_no_numbers(labels));
  if (labels.type == ElementType::other && !labels.words)
    throw DataError(
        fmt::format("{}: '{}' holds {} elements, and labels are numbers; store classes as whole numbers 0, "
                    "1, 2 and so on, or name others with --labels",
                    path, labels.name, labels.type_name));
  Found found{labels, layout_of(labels, samples, path, guesses.axes), {}};
  NamesOfFiles label_names(found);
  Index more = 0;  // numbers of further labels
  DatasetSpec spec;
  spec.files = paths;
  spec.samples = samples.name;
  spec.packing = guesses.packing;
  spec.missing = MissingRule::fill;
  spec.rows = guesses.rows;
  spec.groups = guesses.groups;
  std::vector<std::string> names{guesses.labels};
  names.insert(names.end(), guesses.more_labels.begin(), guesses.more_labels.end());
  const bool in_groups = !guesses.validation_groups.empty();  // by the same names
  if (!guesses.validation_labels.empty() && !in_groups) names.push_back(guesses.validation_labels);
  const auto add_files = [&] {
    const RowSources sources(spec, nullptr, names, {.words = true});
    for (std::size_t file = 0; file < paths.size(); ++file) {
      const auto open = sources.at(file);
      for (const auto& rows : *open) {
        if (file == 0 && !found.layout.single)
          if (const std::string characters = characters_text(*rows); !characters.empty()) throw DataError(characters);
        add_values(*rows, found.layout, found.values);
      }
      if (guesses.more_labels.empty())
        for (const auto& rows : *open) label_names.add(*rows);
      if (more == 0)
        for (std::size_t i = 1; i <= guesses.more_labels.size(); ++i) more += (*open)[i]->row_elements();
    }
  };
  add_files();
  if (in_groups) {
    spec.groups = guesses.validation_groups;
    add_files();
  }
  found.layout.width += more;
  found.values.one_hot = found.values.one_hot && more == 0;
  guess(found, path, guesses);
}

}  // namespace mrmf
