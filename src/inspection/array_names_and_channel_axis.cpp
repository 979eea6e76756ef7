// What the names of arrays say of them, and which axis of samples holds channels: by names and coordinates of the
// axes, else by their lengths. Declared in dataset_guess.hpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/files/text.hpp"
#include "io/hdf5/file.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "io/values/packing_units.hpp"
#include "kernels/errors.hpp"
#include "src/inspection/dataset_guess.hpp"

namespace mrmf {

// What names of arrays say of them; declared in dataset_guess.hpp.

namespace {

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
    word = in_small_letters(word);
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

// Whether a name marks these parts, and nothing else: "train_mask", but not "train_mask_of_lungs".
bool is_mark_of(const std::string& name, const std::vector<std::string>& parts) {
  bool part = false, mark = false;
  for (const std::string& word : words_of(name.substr(name.rfind('/') + 1))) {
    const bool of_part = is_one_of(word, parts), marks = is_one_of(word, {"is", "in", "mask", "mark", "flag"});
    if (!of_part && !marks) return false;
    part = part || of_part, mark = mark || marks;
  }
  return part && mark;
}

std::string replaced(std::string text, const std::string& what, const std::string& by, bool all) {
  std::size_t at = text.find(what);
  while (at != std::string::npos) {
    text.replace(at, what.size(), by);
    at = all ? text.find(what, at + by.size()) : std::string::npos;
  }
  return text;
}

}  // namespace

bool is_for_training(const std::string& name) { return has_any(name, kTrain); }

bool is_held_out(const std::string& name) { return has_any(name, kHeldOut); }

bool is_for_tests(const std::string& name) { return has_any(name, {"test", "testing"}); }

bool is_only_held_out(const std::string& name) { return is_held_out(name) && !is_for_training(name); }

bool is_like_labels(const std::string& name) {
  if (has_any(name, {"label", "target", "class", "mask", "param", "parameter", "par", "truth", "groundtruth", "gt",
                     "kind", "seg", "segmentation", "annotation", "clean", "denoised", "output", "response"}))
    return true;
  const std::vector<std::string> words = words_of(name.substr(name.rfind('/') + 1));
  return !words.empty() && words.front() == "y";
}

bool is_named_beside(const std::string& labels, const std::string& samples) {
  const std::vector<std::string> of_labels = words_of(labels), of_samples = words_of(samples);
  const auto between = [](std::string name) {
    std::erase_if(name, [](char c) { return letter(c) != Letter::none; });
    return name;
  };
  if (of_labels.size() != of_samples.size() || between(labels) != between(samples)) return false;
  std::size_t differing = 0;
  bool says_labels = false;
  for (std::size_t i = 0; i < of_labels.size(); ++i) {
    if (of_labels[i] == of_samples[i]) continue;
    ++differing;
    says_labels = is_like_labels(of_labels[i]) && !is_like_labels(of_samples[i]);
  }
  return differing == 1 && says_labels;
}

bool is_like_split(const std::string& name) { return has_any(name, {"split", "fold", "role", "subset", "partition"}); }

bool is_training_mark(const std::string& name) { return is_mark_of(name, kTrain); }

bool is_held_out_mark(const std::string& name) { return is_mark_of(name, kHeldOut); }

bool is_like_row_list(const std::string& name) {
  return (is_for_training(name) || is_held_out(name)) &&
         (has_any(name, {"idx", "index", "indices", "ind", "idc", "id", "row", "rownumber"}) || is_like_split(name));
}

bool is_like_fold(const std::string& name) { return in_small_letters(name).find("fold") != std::string::npos; }

bool is_like_mark(const std::string& name) {
  return has_any(name, {"held", "heldout", "holdout", "mark", "marked"}) || is_only_held_out(name);
}

bool is_like_row_numbers(const std::string& name) {
  return is_like_split(name) || has_any(name, {"held",      "heldout",   "id",        "index",    "indices",  "idx",
                                               "row",       "time",      "timestamp", "uid",      "uuid",     "objid",
                                               "objectid",  "specobjid", "sourceid",  "sampleid", "galaxyid", "haloid",
                                               "subjectid", "patientid", "runid",     "number"});
}

bool is_like_coordinate(const std::string& name) {
  return has_any(name.substr(name.rfind('/') + 1), {"coordinate", "coord", "dim", "dimension", "axis", "lat",
                                                    "latitude", "lon", "longitude", "time", "timestamp"});
}

namespace {

// Attributes that tell of an array's numbers, or of how they were measured.
const std::set<std::string> kAboutNumbers{"date",
                                          "created",
                                          "gain",
                                          "exposure",
                                          "dx",
                                          "dy",
                                          "dz",
                                          "dt",
                                          "pixel_size",
                                          "voxel_size",
                                          "resolution",
                                          "spacing",
                                          "vmin",
                                          "vmax",
                                          "sampling_rate",
                                          "units",
                                          "unit",
                                          "scale_factor",
                                          "add_offset",
                                          "_fillvalue",
                                          "missing_value",
                                          "valid_min",
                                          "valid_max",
                                          "valid_range",
                                          "_unsigned",
                                          "fillvalue",
                                          "missingvalue",
                                          "actual_range",
                                          "min",
                                          "max",
                                          "mean",
                                          "std",
                                          "minimum",
                                          "maximum",
                                          "stddev",
                                          "range",
                                          "long_name",
                                          "standard_name",
                                          "description",
                                          "comment",
                                          "title",
                                          "history",
                                          "class",
                                          "name",
                                          "coordinates",
                                          "cell_methods",
                                          "dimension_list",
                                          "dimension_labels",
                                          "grid_mapping",
                                          "reference_list",
                                          "checksum",
                                          "fletcher32",
                                          "flag_values",
                                          "flag_masks",
                                          "flag_meanings"};

}  // namespace

bool is_about_numbers(const std::string& attribute) {
  const std::string small = in_small_letters(attribute);
  return kAboutNumbers.contains(small) || small.starts_with("_netcdf4") ||
         std::ranges::any_of(other_scales(),
                             [&](const auto& one) { return attribute == one.scale || attribute == one.offset; });
}

bool is_like_group(const std::string& name) {
  return has_any(name, {"subject",   "patient",    "participant", "person",   "individual", "animal",      "donor",
                        "speaker",   "simulation", "sim",         "session",  "recording",  "specimen",    "case",
                        "site",      "station",    "hospital",    "group",    "cohort",     "subjectid",   "patientid",
                        "sessionid", "groupid",    "caseid",      "personid", "userid",     "simulationid"});
}

std::vector<std::string> partner_names(const std::string& name, const std::string& word) {
  const std::string small = in_small_letters(name);
  std::vector<std::string> names;
  for (const std::string train : {"training", "train"})
    for (const bool all : {true, false})
      if (small.find(train) != std::string::npos) names.push_back(replaced(small, train, word, all));
  return names;
}

// Which axis of samples holds channels: as the file says by names and coordinates of the axes, else by their lengths.

namespace {

constexpr Index kFewChannels = 16;       // an axis as short as this may be one of channels
constexpr Index kManyShort = 256;        // and so may one as short as this, if positions are many times more
constexpr Index kFar = 8, kApart = 2;    // times more: so many are positions; so many may be
constexpr std::size_t kMostSpatial = 3;  // axes of them that samples have

/// What a file says of the axes of samples, without that of the rows.
class ToldAxes {
 public:
  ToldAxes(std::vector<Index> sizes, std::vector<NamedAxis> axes) : sizes_(std::move(sizes)), axes_(std::move(axes)) {
    axes_.resize(sizes_.size());
  }

  bool tell() const {
    return std::ranges::any_of(axes_, [](const NamedAxis& axis) { return axis.kind != AxisKind::unknown; });
  }
  bool is(std::size_t axis, AxisKind kind) const { return axes_[axis].kind == kind; }
  const std::string& name(std::size_t axis) const { return axes_[axis].name; }
  /// The shortest that is not called horizontal; none where all are.
  std::optional<std::size_t> shortest() const {
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis)
      if (!is(axis, AxisKind::horizontal) && (!found || sizes_[axis] < sizes_[*found])) found = axis;
    return found;
  }
  std::optional<std::size_t> called_channels() const {
    const auto found = std::ranges::find(axes_, AxisKind::channels, &NamedAxis::kind);
    return found == axes_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - axes_.begin()));
  }
  /// Whether an axis is so much shorter than all others that it rather holds channels.
  bool is_short(std::size_t axis) const {
    Index least = 0;  // the smallest size of the others
    for (std::size_t other = 0; other < sizes_.size(); ++other)
      if (other != axis && (least == 0 || sizes_[other] < least)) least = sizes_[other];
    const Index size = sizes_[axis];
    return (size <= kFewChannels && size < least) ||
           (is(axis, AxisKind::unknown) && size <= kManyShort && least >= kFar * size);
  }
  /// "the file calls its axes 'level', (no name)"
  std::string text() const {
    std::vector<std::string> names;
    for (std::size_t axis = 0; axis < axes_.size(); ++axis)
      names.push_back(name(axis).empty() ? "(no name)" : "'" + name(axis) + "'");
    return fmt::format("the file calls {} {}", names.size() == 1 ? "its axis" : "its axes", fmt::join(names, ", "));
  }

 private:
  std::vector<Index> sizes_;
  std::vector<NamedAxis> axes_;
};

// data.axes of so many axes, of which one holds the channels; none: all are positions.
std::string order_text(std::size_t axes, std::optional<std::size_t> channel) {
  const std::string names[] = {"x", "y", "z"};
  std::size_t position = axes - (channel ? 1 : 0);
  std::string order = "n";
  for (std::size_t axis = 0; axis < axes; ++axis) order += " " + (axis == channel ? "c" : names[--position]);
  return order;
}

// As the file tells; none where it does not.
std::optional<std::string> axes_as_told(const std::string& samples, const ToldAxes& told, std::size_t axes,
                                        std::vector<std::string>& reasons) {
  const auto say = [&](const std::string& what, std::optional<std::size_t> channel, const std::string& other = "") {
    reasons.push_back(fmt::format("{} is taken for samples {}: {}{}", samples, what, told.text(), other));
    return channel && *channel + 1 == axes ? "" : order_text(axes, channel);
  };
  const auto with_channels = [&](std::size_t axis) {
    return axis == 0 ? "with channels first" : axis + 1 == axes ? "with channels last" : "with channels in between";
  };
  const std::optional<std::size_t> called = told.called_channels(), shortest = told.shortest();
  if (axes == 1 && called) return say("of channels without positions", 0);
  if (axes == 1)
    return told.is(0, AxisKind::horizontal) && !may_name_columns(told.name(0))
               ? std::optional(say("without an axis of channels", {}))
               : std::nullopt;
  if (called) return say(with_channels(*called), called);
  const bool too_many = axes > kMostSpatial;
  if (!shortest) return too_many ? std::nullopt : std::optional(say("without an axis of channels", {}));
  const std::string which = told.name(*shortest).empty() ? "the other axis" : "'" + told.name(*shortest) + "'";
  if (too_many) return say(with_channels(*shortest), shortest, fmt::format("; {} holds the channels", which));
  if (told.is_short(*shortest))
    return say(with_channels(*shortest), shortest,
               fmt::format("; {} is short and holds the channels; if it holds positions, give "
                           "--axes \"{}\"",
                           which, order_text(axes, {})));
  return say("without an axis of channels", {},
             fmt::format("; if {} holds channels, give --axes \"{}\"", which, order_text(axes, shortest)));
}

}  // namespace

std::vector<NamedAxis> axes_named_in(const std::string& path, const RowLayout& layout, const FileArray& samples) {
  const bool by_row = layout.rows == RowsBy::axis;
  try {
    std::vector<NamedAxis> axes =
        named_axes(path, layout.first_group.empty() ? samples.name : layout.first_group + "/" + samples.name);
    if (by_row && !axes.empty()) axes.erase(axes.begin());
    return axes;
  } catch (const DataError&) {  // nothing is told then
    return {};
  }
}

std::string guess_axes(const FileArray& samples, const std::vector<NamedAxis>& named,
                       std::vector<std::string>& reasons) {
  const std::vector<Index> sizes(samples.shape.begin() + 1, samples.shape.end());
  const auto axes = sizes.size();
  const std::string shown = fmt::format("'{}' ({})", samples.name, fmt::join(samples.shape, ", "));
  const auto say = [&](const std::string& what, const std::string& order, const std::string& other = "") {
    reasons.push_back(fmt::format("{} is taken for {}{}", shown, what, other));
    return order;
  };
  if (axes < 1 || axes > 4) return "";  // guess_labels() refuses them
  const ToldAxes told(sizes, named);
  if (told.tell() && !samples.complex())
    if (const std::optional<std::string> order = axes_as_told(shown, told, axes, reasons)) return *order;
  if (axes == 1 && sizes[0] < 2 * kFewChannels) return say("features without positions", "");
  if (axes == 1) return say("series without an axis of channels", "n x");
  if (samples.complex()) return say("samples of complex numbers, whose parts are their channels", "");
  const Index others = *std::min_element(sizes.begin() + 1, sizes.end());
  const Index before = *std::min_element(sizes.begin(), sizes.end() - 1);
  const std::string first = order_text(axes, 0), last = order_text(axes, axes - 1);
  if (sizes.back() <= kFewChannels && sizes.back() < before) return say("samples with channels last", "");
  if (sizes.front() <= kFewChannels && sizes.front() < others) return say("samples with channels first", first);
  if (axes == 4 && looks_channels_first(sample_shape(samples.shape)))
    return say("samples with channels first", first,
               fmt::format("; if the last axis of {} holds channels, give --axes \"{}\"", sizes.back(), last));
  if (axes == 4) return say("samples with channels last", "");
  // More channels than that: an axis that is far shorter than all others, or may be.
  const bool is_last = sizes.back() < sizes.front();
  const Index fewest = std::min(sizes.front(), sizes.back()), most = is_last ? before : others;
  const std::string none = order_text(axes, {}), moved = is_last ? last : first;
  if (fewest <= kManyShort && most >= kFar * fewest)
    return say(is_last ? "samples with channels last" : "samples with channels first", is_last ? "" : first,
               fmt::format("; if the axis of {} holds positions, give --axes \"{}\"", fewest, none));
  return say("samples without an axis of channels", none,
             fewest <= kManyShort && most >= kApart * fewest
                 ? fmt::format("; if the axis of {} holds channels, give --axes \"{}\"", fewest, moved)
                 : "");
}

}  // namespace mrmf
