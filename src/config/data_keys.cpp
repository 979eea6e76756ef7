// Keys of the data that have readings or writings of their own, and what goes with what. Paths are within [data], or
// within data.split where a KeyList is of SplitSettings.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "io/files/file_names.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/config/key_table.hpp"
#include "src/config/keys.hpp"

namespace mrmf {
namespace {

constexpr const char* kMemory = "a number of GB above 0, or a text such as \"8 GB\", \"500 MB\" or \"1.5 TB\"";

// "8 GB" in GB; 0 for any other kind of text.
double gigabytes(const std::string& text) {
  constexpr std::array<std::pair<const char*, double>, 6> units{
      {{"MB", 1e-3}, {"GB", 1}, {"TB", 1e3}, {"MiB", 0x1p20 / 1e9}, {"GiB", 0x1p30 / 1e9}, {"TiB", 0x1p40 / 1e9}}};
  std::istringstream words(text);
  double number = 0;
  std::string unit, rest;
  words >> number >> unit;
  if (words.fail() || words >> rest) return 0;
  for (const auto& [name, size] : units)
    if (unit == name) return number * size;
  return 0;
}

const Rule& unit_words() {
  static const Rule rule = one_of({"none", "log1p", "mean_std", "log1p_mean_std"});
  return rule;
}

// A name, or a list of several; `field` gives the first and the others.
template <class Field>
void add_names(KeyList<DataConfig>& keys, const std::string& path, Field field, const std::string& meaning) {
  constexpr const char* expected = "a text, or a list of texts";
  keys.add({path, expected, meaning,
            [=](DataConfig& data, const Value& value, const std::string& full) {
              const std::vector<Value> items = read_list(value);
              if (items.empty()) refuse(value, full, expected);
              const auto [first, more] = field(data);
              first = read_text(items.front(), full, {});
              more.clear();
              for (std::size_t i = 1; i < items.size(); ++i) more.push_back(read_text(items[i], full, {}));
            },
            [=](const DataConfig& data) {
              const auto [first, more] = field(data);
              if (more.empty()) return write(first, {});
              std::vector<std::string> names{first};
              names.insert(names.end(), more.begin(), more.end());
              return write(names, {});
            }});
}

}  // namespace

// What values of data.split.column mean; data.split.validation is a share for other splits.
void add_role_keys(KeyList<SplitSettings>& keys) {
  const Rule share = within(0.0001, 0.9999);
  const std::string expected = expected_number(false, share) + ", or a list of numbers or texts";
  keys.add(
      {"validation", expected,
       "rows, files, groups: the share that validates; column: a list of the values whose rows validate, such as [1] "
       "or [\"val\"]; without it, of a column of 0 and one other number, the other one; arrays: the array of these "
       "rows",
       [=](SplitSettings& split, const Value& value, const std::string& path) {
         const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
         if (!number) {
           split.validation_roles = read_values(value, path, expected);
           return;
         }
         const double x = value.kind == Value::Kind::real ? value.real : static_cast<double>(value.integer);
         if (!(x >= share.least && x <= share.most)) refuse(value, path, expected);
         split.validation = x;
       },
       [](const SplitSettings& split) {
         if (!split.validation_roles.empty()) return write_values(split.validation_roles);
         return fmt::format("{}", split.validation);
       }});
  const std::string tests = expected_number(false, from_below(0, 1)) + ", or a list of numbers or texts";
  keys.add(
      {"test", tests,
       "rows, files, groups, folds: the share that tests, which training and validation never see; column, or folds of "
       "a column: a list of the values whose rows test; the word \"test\" in a column unless set; arrays: the array of "
       "these rows",
       [=](SplitSettings& split, const Value& value, const std::string& path) {
         const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
         if (number)
           split.test = read_real(value, path, from_below(0, 1));
         else
           split.test_roles = read_values(value, path, tests);
       },
       [](const SplitSettings& split) {
         if (!split.test_roles.empty()) return write_values(split.test_roles);
         return split.test > 0 ? fmt::format("{}", split.test) : "";
       }});
  keys.add({"train", "a list of numbers or texts",
            "column: the values whose rows train; rows of other values are left out; 0, \"train\", or the only "
            "one that does not validate unless set. arrays: the array that lists or marks these rows",
            [](SplitSettings& split, const Value& value, const std::string& path) {
              split.train_roles = read_values(value, path, "a list of numbers or texts");
            },
            [](const SplitSettings& split) { return write_values(split.train_roles); }});
}

void add_folds_key(KeyList<SplitSettings>& keys) {
  keys.add({"folds", expected_number(true, within(2, kMostFolds)),
            "folds: how many parts are made, each of which validates once; the values of split.column unless set",
            [](SplitSettings& split, const Value& value, const std::string& path) {
              split.folds = static_cast<int>(read_integer(value, path, within(2, kMostFolds)));
            },
            [](const SplitSettings& split) { return split.folds > 0 ? fmt::format("{}", split.folds) : ""; }});
}

void add_files_key(KeyList<DataConfig>& keys, const std::string& path, DatasetSpec DataConfig::*part,
                   const std::string& meaning) {
  Key<DataConfig> key = make_key<DataConfig>(
      path, [=](auto& data) -> auto& { return (data.*part).files; }, {}, meaning);
  // Files of several parts are written once, so that a run's own configuration takes data.files of another place alone.
  key.write = [=](const DataConfig& data) {
    const bool own = part == &DataConfig::train || (data.*part).files != data.train.files;
    return own ? write(fold_numbers((data.*part).files), {}) : "";
  };
  keys.add(std::move(key));
}

void add_dataset_keys(KeyList<DataConfig>& keys, const std::string& part, DatasetSpec DataConfig::*spec) {
  add_names(
      keys, part + ".samples", [=](auto& d) { return std::tie((d.*spec).samples, (d.*spec).more_samples); },
      "data set of the " + part + " samples; of several, [\"density\", \"velocity\"], the channels follow each other");
  add_names(
      keys, part + ".labels", [=](auto& d) { return std::tie((d.*spec).labels, (d.*spec).more_labels); },
      "the same of their labels; \"@omega_m\" is an attribute of the file, or of a sample's group, and "
      "\"density@omega_m\" one of a data set; of several, [\"@omega_m\", \"@sigma_8\"], the outputs follow each other");
}

void add_normalise_key(KeyList<DataConfig>& keys, const std::string& one, Normalisation DataConfig::*field,
                       const std::string& more) {
  keys.add({"normalise." + one + "s", expected_word(unit_words()),
            "units in which the network sees " + one +
                "s: as they are, log(1 + x), (x - mean) / std per channel, or both, the logarithm first" + more,
            [=](DataConfig& data, const Value& value, const std::string& full) {
              const std::size_t word = read_word(value, full, unit_words());
              (data.*field).log1p = word % 2 == 1;
              (data.*field).mean_std = word >= 2;
            },
            [=](const DataConfig& data) {
              const Normalisation& units = data.*field;
              return quoted(unit_words().words[(units.log1p ? 1U : 0U) + (units.mean_std ? 2U : 0U)]);
            }});
}

void add_memory_key(KeyList<DataConfig>& keys) {
  keys.add({"memory", kMemory,
            "memory of a node for samples, shared by its ranks; half of what the job may use there unless set",
            [](DataConfig& data, const Value& value, const std::string& path) {
              const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
              const double wanted = number                            ? read_real(value, path, {})
                                    : value.kind == Value::Kind::text ? gigabytes(value.text)
                                                                      : 0;
              if (!(wanted > 0) || wanted > 1e9) refuse(value, path, kMemory);
              data.memory = wanted;
            },
            [](const DataConfig& data) { return data.memory ? fmt::format("{}", *data.memory) : ""; }});
}

namespace {

// Chooses whole files at random: as many as the shares say, at least one for each part.
void split_files(DataConfig& data, const KeyOrigin& keys) {
  const std::vector<std::string> all = data.train.files;
  if (all.size() == 1 && is_pattern(all.front())) return;  // reported when files are opened
  const std::size_t parts = data.split.test > 0 ? 3 : 2;
  keys.require(all.size() >= parts, "data.split.by",
               fmt::format("data.split.by = \"files\" needs at least {} files, and data.files names {}; use \"rows\"",
                           parts == 3 ? "three" : "two", all.size() == 1 ? "one" : std::to_string(all.size())));
  const auto count = static_cast<double>(all.size());
  const auto share = [&](double of, double most) {
    return static_cast<std::size_t>(std::clamp(std::round(of * count), 1.0, most));
  };
  const std::size_t validate = share(data.split.validation, count - static_cast<double>(parts) + 1);
  const std::size_t test = parts == 3 ? share(data.split.test, count - 1 - static_cast<double>(validate)) : 0;
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return mix(data.split.seed, 0x66696c6573, i); });
  std::vector<DatasetSpec*> part(all.size(), &data.train);
  for (std::size_t i = 0; i < validate + test; ++i) part[order[i]] = i < validate ? &data.validation : &data.test;
  data.train.files.clear();
  for (std::size_t i = 0; i < all.size(); ++i) part[i]->files.push_back(all[i]);
}

// A name that no file has, such as an address, helps nobody further on.
void require_file_name(const std::string& name, const std::string& where) {
  if (name.find_first_not_of(" \t") == std::string::npos)
    throw ConfigError(where + ": a name is empty; name a file, or leave it out");
  const std::string advice = advice_on_name(name);
  std::error_code unknown;
  if (advice.empty() || std::filesystem::exists(name, unknown)) return;
  throw ConfigError(where + ": " + name + " is no file: " + advice);
}

// What goes with which way of splitting.
void check_split(const SplitSettings& split, const KeyOrigin& keys) {
  const bool grouped = split.by == SplitBy::groups || split.by == SplitBy::folds;
  keys.require(split.column.empty() || split.by == SplitBy::column || grouped, "data.split.column",
               "data.split.column goes with data.split.by = \"column\", \"groups\" or \"folds\"");
  keys.require(!split.column.empty() || split.by != SplitBy::column, "data.split.by",
               "data.split.by = \"column\" needs data.split.column, the data set with a number per row");
  keys.require(
      split.by != SplitBy::arrays || (!split.train_roles.empty() && !split.validation_roles.empty()), "data.split.by",
      "data.split.by = \"arrays\" needs data.split.train and data.split.validation, the arrays that list their "
      "rows");
  keys.require(!split.column.empty() || split.by != SplitBy::groups, "data.split.by",
               "data.split.by = \"groups\" needs data.split.column, the data set that says what each row belongs to");
  keys.require(!split.column.empty() || split.by != SplitBy::folds || split.folds > 0, "data.split.by",
               "data.split.by = \"folds\" needs data.split.folds, how many, or data.split.column, each row's fold");
  for (const auto& [key, roles] :
       {std::pair("data.split.validation", &split.validation_roles), std::pair("data.split.train", &split.train_roles)})
    keys.require(roles->empty() || split.by == SplitBy::column || split.by == SplitBy::arrays, key,
                 fmt::format("{} names values of data.split.column, {}", key,
                             split.column.empty() ? "which is not set; name the data set there"
                                                  : "and data.split.by is not \"column\"; give a share"));
  const bool fold_column = split.by == SplitBy::folds && split.folds == 0;
  const bool named = split.by == SplitBy::column || split.by == SplitBy::arrays || fold_column;
  keys.require(split.test_roles.empty() || named, "data.split.test",
               "data.split.test names values of a column of roles or folds, and there is none; give a share");
  keys.require(split.test == 0 || (split.by != SplitBy::given && !named), "data.split.test",
               split.by == SplitBy::given
                   ? "data.split.test is a share, and data.split.by is not set; set it, or name data.test.samples"
               : split.by == SplitBy::arrays
                   ? "data.split.test is a share, and data.split.by is \"arrays\"; name the array of the test's rows"
                   : "data.split.test is a share, and data.split.column says what rows are for; name its values");
  keys.require(split.validation + split.test < 1 ||
                   (split.by != SplitBy::rows && split.by != SplitBy::files && split.by != SplitBy::groups),
               "data.split.test",
               fmt::format("data.split.validation = {:g} and data.split.test = {:g} leave no row for training; take "
                           "less",
                           split.validation, split.test));
  keys.require(split.train_roles.empty() || !split.validation_roles.empty(), "data.split.train",
               "data.split.train is set, and data.split.validation is not; name the values whose rows validate, too");
  keys.require(split.folds == 0 || split.by == SplitBy::folds, "data.split.folds",
               "data.split.folds goes with data.split.by = \"folds\"");
  keys.require(split.fold == 0 || split.by == SplitBy::folds, "data.split.fold",
               "data.split.fold goes with data.split.by = \"folds\"");
  keys.require(split.folds == 0 || split.fold < split.folds, "data.split.fold",
               fmt::format("data.split.fold = {}, and there are {} folds, counted from 0", split.fold, split.folds));
  keys.require(!split.stratify.value_or(false) || split.by == SplitBy::rows || grouped, "data.split.stratify",
               "data.split.stratify goes with data.split.by = \"rows\", \"groups\" or \"folds\"");
}

// The names of a part that the split makes are those of the training data.
void share_names(DatasetSpec& part, const DatasetSpec& train, const std::string& key, const KeyOrigin& keys) {
  const auto share = [&](std::string& name, const std::string& of_training, const std::string& which) {
    keys.require(name.empty() || name == of_training, which,
                 which + " names data of its own, and data.split.by takes " + key.substr(5) +
                     " samples from data.train; remove one");
    name = of_training;
  };
  keys.require(part.more_samples.empty() || part.more_samples == train.more_samples, key + ".samples",
               key + ".samples and data.split.by are both given; remove one");
  share(part.samples, train.samples, key + ".samples");
  part.more_samples = train.more_samples;
  keys.require(part.more_labels.empty() || part.more_labels == train.more_labels, key + ".labels",
               key + ".labels and data.split.by are both given; remove one");
  share(part.labels, train.labels, key + ".labels");
  part.more_labels = train.more_labels;
}

RowChoice row_choice(const SplitSettings& split) {
  RowChoice choice{Subset::train, split.column, 0, split.seed, split.train_roles, split.validation_roles};
  choice.test_roles = split.test_roles;
  choice.test = split.test;
  if (split.by == SplitBy::rows || split.by == SplitBy::groups) choice.validation = split.validation;
  if (split.by == SplitBy::groups) choice.rule = SplitRule::groups;
  if (split.by == SplitBy::arrays) choice.rule = SplitRule::arrays;
  if (split.by == SplitBy::folds) choice.rule = SplitRule::folds, choice.folds = split.folds, choice.fold = split.fold;
  return choice;
}

void complete_split(DataConfig& data, const KeyOrigin& keys) {
  SplitSettings& split = data.split;
  if (!keys.given("data.split.by")) {
    if (split.folds > 0) split.by = SplitBy::folds;
    if (split.folds == 0 && !split.column.empty()) split.by = SplitBy::column;
  }
  check_split(split, keys);
  if (split.by == SplitBy::given) return;
  const bool by_words = split.by == SplitBy::column || (split.by == SplitBy::folds && split.folds == 0);
  const bool tests = split.test > 0 || by_words || !split.test_roles.empty();
  share_names(data.validation, data.train, "data.validation", keys);
  if (tests) share_names(data.test, data.train, "data.test", keys);
  keys.require(tests || data.test.samples.empty(), "data.test.samples",
               "data.test.samples names data of its own, and data.split.by takes samples from data.train; set "
               "data.split.test in its place");
  keys.require(split.by != SplitBy::files || split.test == 0 || data.validation.files.empty(), "data.split.test",
               "data.split.test shares out files, and data.validation.files are given; remove one of the two, or name "
               "data.test.files");
  if (split.by == SplitBy::files && data.validation.files.empty()) split_files(data, keys);
  if (split.by == SplitBy::files) return;
  keys.require(split.by != SplitBy::arrays || data.train.rows == RowsBy::axis, "data.split.by",
               "data.split.by = \"arrays\" is for samples along an axis of their array, and data.rows is set");
  keys.require(data.validation.groups.empty() || data.validation.groups == data.train.groups, "data.validation.groups",
               "data.validation.groups are groups of their own, and data.split.by takes validation samples from "
               "data.groups; remove one");
  for (const auto& [part, name] : {std::pair(&data.validation, "validation"), std::pair(&data.test, "test")})
    keys.require(part->files.empty() || part->files == data.train.files, fmt::format("data.{}.files", name),
                 fmt::format("data.{0}.files are files of their own, and data.split.by takes {0} samples from "
                             "data.files; remove one",
                             name));
  data.train.choice = data.validation.choice = data.test.choice = row_choice(split);
  data.validation.choice.part = Subset::validation;
  data.test.choice.part = Subset::test;
  if (!tests) data.test = {};
}

// What all parts have in common.
void share_layout(DatasetSpec& part, const DatasetSpec& train) {
  part.axes = train.axes;
  part.rows = train.rows;
  if (part.groups.empty()) part.groups = train.groups;
  part.layout = train.layout;
  part.missing = train.missing;
  part.packing = train.packing;
  part.not_finite = train.not_finite;
  part.mask = train.mask;
}

void check_normalisation(const Normalisation& units, const std::string& of, const KeyOrigin& keys) {
  const std::string key = "data.normalise." + of;
  const bool given = !units.mean.empty() || !units.std.empty();
  keys.require(!given || units.mean_std, key + "_mean",
               fmt::format("{0}_mean and {0}_std go with {0}s = \"mean_std\"", key));
  keys.require(units.mean.size() == units.std.size(), key + (units.mean.empty() ? "_std" : "_mean"),
               fmt::format("{0}_mean has {1} and {0}_std {2} entries; give both, one number each or one per channel",
                           key, units.mean.size(), units.std.size()));
}

const char* const kNameHint = "name the data set inside the files";

void require_key(const KeyOrigin& keys, const std::string& key, bool present, const std::string& hint) {
  keys.require(present, key, key + " is missing; " + hint);
}

// The names of files, with patterns expanded.
void complete_files(DataConfig& data, const KeyOrigin& keys) {
  require_key(keys, "data.files", !data.train.files.empty(),
              "name the HDF5 files to read, such as files = [\"neuron.h5\"]");
  for (const auto& [key, files] :
       {std::pair("data.files", &data.train.files), std::pair("data.validation.files", &data.validation.files),
        std::pair("data.test.files", &data.test.files)}) {
    for (const std::string& file : *files) require_file_name(file, keys.of(key));
    *files = expand_patterns(*files);
  }
}

// The names of data sets, and what validates and tests where they do not say it.
void complete_names(DataConfig& data, const KeyOrigin& keys) {
  require_key(keys, "data.train.samples", !data.train.samples.empty(), kNameHint);
  require_key(keys, "data.train.labels", !data.train.labels.empty(), kNameHint);
  for (const auto& [key, more] : {std::pair("data.train.samples", &data.train.more_samples),
                                  std::pair("data.train.labels", &data.train.more_labels)})
    keys.require(std::ranges::none_of(*more, &std::string::empty), key,
                 std::string(key) + " has an empty name; name a data set, or leave it out");
  complete_split(data, keys);
  RowPiece& piece = data.train.piece;
  piece.seed = data.split.seed;
  keys.require(piece.number < piece.of, "data.part.number",
               fmt::format("data.part.number is {} of {} parts, which count from 0", piece.number, piece.of));
  const std::string split = std::string(kNameHint) + ", or let data.split.by choose some of the training rows";
  require_key(keys, "data.validation.samples", !data.validation.samples.empty(), split);
  require_key(keys, "data.validation.labels", !data.validation.labels.empty(), split);
  if (data.validation.files.empty()) data.validation.files = data.train.files;
  require_key(keys, "data.test.labels", data.test.samples.empty() || !data.test.labels.empty(), kNameHint);
  keys.require(
      !data.test.samples.empty() || (data.test.files.empty() && data.test.labels.empty() && data.test.groups.empty()),
      "data.test.samples", std::string("data.test.samples is missing; ") + kNameHint);
  if (!data.test.samples.empty() && data.test.files.empty()) data.test.files = data.train.files;
}

// How rows and samples lie in the files.
void complete_layout(DataConfig& data, const KeyOrigin& keys) {
  if (data.train.rows != RowsBy::axis) data.train.axes = axes_with_rows(data.train.axes);
  AxisOrder order;
  try {
    order = parse_axes(data.train.axes);
  } catch (const ConfigError& error) {
    throw ConfigError(keys.of("data.axes") + ": " + error.what());
  }
  keys.require(!order.given() || data.train.layout == SampleLayout::as_stored, "data.axes",
               "data.axes and data.layout = \"reinterpret\" both say how a sample is seen; keep one");
  keys.require(!data.augment.any() || data.train.layout == SampleLayout::as_stored, "data.layout",
               "data.layout = \"reinterpret\" leaves no axes that data.augment could change; remove one of them");
  keys.require(!data.patch.any() || data.train.layout == SampleLayout::as_stored, "data.layout",
               "data.layout = \"reinterpret\" leaves no positions that data.patch could cut; remove one of them");
  keys.require(data.patch.any() || data.patch == PatchSettings{}, "data.patch",
               "data.patch_foreground and data.patch_overlap are of boxes; set their size, data.patch = [64, 64, 64]");
  const bool names_groups = !data.train.groups.empty() || !data.validation.groups.empty() || !data.test.groups.empty();
  keys.require(data.train.rows == RowsBy::groups || !names_groups,
               keys.given("data.groups")              ? "data.groups"
               : keys.given("data.validation.groups") ? "data.validation.groups"
                                                      : "data.test.groups",
               "data.groups says which groups are samples, which goes with data.rows = \"groups\"");
  share_layout(data.validation, data.train);
  if (!data.test.samples.empty()) share_layout(data.test, data.train);
}

}  // namespace

void complete_data(DataConfig& data, const KeyLocations& locations, const std::string& origin) {
  const KeyOrigin keys{locations, origin};
  complete_files(data, keys);
  complete_names(data, keys);
  complete_layout(data, keys);
  const bool fill = data.train.not_finite == NotFiniteRule::fill;
  keys.require(fill || data.fill.empty(), "data.fill", "data.fill goes with data.not_finite = \"fill\"");
  keys.require(fill || !data.train.mask, "data.mask", "data.mask goes with data.not_finite = \"fill\"");
  keys.require(!data.train.mask || data.train.layout == SampleLayout::as_stored, "data.mask",
               "data.layout = \"reinterpret\" leaves no place for the channel of data.mask; remove one of them");
  check_normalisation(data.normalise_samples, "sample", keys);
  check_normalisation(data.normalise_labels, "label", keys);
}

}  // namespace mrmf
