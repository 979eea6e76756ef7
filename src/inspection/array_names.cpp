// What names of arrays say of them; declared in guess_parts.hpp.
#include "src/inspection/guess_parts.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "io/files/text.hpp"
#include "io/values/packing_units.hpp"

namespace mrmf {
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

// Of these parts, and of nothing else: "train_mask", but not "train_mask_of_lungs".
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

}  // namespace mrmf
