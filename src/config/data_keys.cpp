// Keys of the data: files, axes, splits, normalisation, how samples are read. Paths are within [data]; defaults:
// DataConfig in config.hpp, DatasetSpec in io/rows/dataset.hpp, PatchSettings in io/rows/sample_order.hpp.
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

Key<DataConfig> memory_key() {
  return {"memory", kMemory,
          "memory of a node for samples, shared by its ranks; half of what the job may use there unless set",
          [](DataConfig& data, const Value& value, const std::string& path) {
            const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
            const double wanted = number                            ? read_real(value, path, {})
                                  : value.kind == Value::Kind::text ? gigabytes(value.text)
                                                                    : 0;
            if (!(wanted > 0) || wanted > 1e9) refuse(value, path, kMemory);
            data.memory = wanted;
          },
          [](const DataConfig& data) { return data.memory ? fmt::format("{}", *data.memory) : ""; }};
}

const Rule& unit_words() {
  static const Rule rule = one_of({"none", "log1p", "mean_std", "log1p_mean_std"});
  return rule;
}

// data.normalise.samples, sample_mean and sample_std, or the same of labels.
template <class Field>
void add_normalisation(Keys<DataConfig>& keys, const std::string& one, Field field, const std::string& more,
                       const std::string& more_of_std) {
  const std::string path = "normalise." + one, measured = "; measured over the training " + one + "s unless set";
  keys.push_back({path + "s", expected_word(unit_words()),
                  "units in which the network sees " + one +
                      "s: as they are, log(1 + x), (x - mean) / std per channel, or both, "
                      "the logarithm first" +
                      more,
                  [=](DataConfig& data, const Value& value, const std::string& full) {
                    const std::size_t word = read_word(value, full, unit_words());
                    field(data).log1p = word % 2 == 1;
                    field(data).mean_std = word >= 2;
                  },
                  [=](const DataConfig& data) {
                    const Normalisation& units = field(data);
                    return quoted(unit_words().words[(units.log1p ? 1U : 0U) + (units.mean_std ? 2U : 0U)]);
                  }});
  add_key(
      keys, path + "_mean", [=](auto& d) -> auto& { return field(d).mean; }, {},
      "mean_std: one number, or one per channel" + measured);
  add_key(
      keys, path + "_std", [=](auto& d) -> auto& { return field(d).std; }, above(0),
      "mean_std: the same for the divisor" + more_of_std + measured);
}

// A name, or a list of several; `field` gives the first and the others.
template <class Field>
void add_names(Keys<DataConfig>& keys, const std::string& path, Field field, const std::string& meaning) {
  constexpr const char* expected = "a text, or a list of texts";
  keys.push_back({path, expected, meaning,
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

constexpr double kMostFolds = 1000;

// data.split.folds, and what goes with it.
void add_folds(Keys<DataConfig>& keys) {
  keys.push_back(
      {"split.folds", expected_number(true, within(2, kMostFolds)),
       "folds: how many parts are made, each of which validates once; the values of split.column unless set",
       [](DataConfig& data, const Value& value, const std::string& path) {
         data.split.folds = static_cast<int>(read_integer(value, path, within(2, kMostFolds)));
       },
       [](const DataConfig& data) { return data.split.folds > 0 ? fmt::format("{}", data.split.folds) : ""; }});
  add_key(keys, "split.fold", MRMF_FIELD(split.fold), within(0, kMostFolds),
          "folds: the one that validates, from 0; mrmf train --folds trains all of them");
  add_key(keys, "split.stratify", MRMF_FIELD(split.stratify), {},
          "give every part its share of each class, where samples have one class each; of groups and folds unless set");
}

// data.split.column and what its values mean; data.split.validation is a share for other splits.
void add_split_column(Keys<DataConfig>& keys) {
  const Rule share = within(0.0001, 0.9999);
  const std::string expected = expected_number(false, share) + ", or a list of numbers or texts";
  keys.push_back(
      {"split.validation", expected,
       "rows, files, groups: the share that validates; column: a list of the values whose rows validate, such as [1] "
       "or [\"val\"]; without it, of a column of 0 and one other number, the other one; arrays: the array of these "
       "rows",
       [=](DataConfig& data, const Value& value, const std::string& path) {
         const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
         if (!number) {
           data.split.validation_roles = read_values(value, path, expected);
           return;
         }
         const double x = value.kind == Value::Kind::real ? value.real : static_cast<double>(value.integer);
         if (!(x >= share.least && x <= share.most)) refuse(value, path, expected);
         data.split.validation = x;
       },
       [](const DataConfig& data) {
         if (!data.split.validation_roles.empty()) return write_values(data.split.validation_roles);
         return fmt::format("{}", data.split.validation);
       }});
  const std::string tests = expected_number(false, from_below(0, 1)) + ", or a list of numbers or texts";
  keys.push_back(
      {"split.test", tests,
       "rows, files, groups, folds: the share that tests, which training and validation never see; column, or folds of "
       "a column: a list of the values whose rows test; the word \"test\" in a column unless set; arrays: the array of "
       "these rows",
       [=](DataConfig& data, const Value& value, const std::string& path) {
         const bool number = value.kind == Value::Kind::integer || value.kind == Value::Kind::real;
         if (number)
           data.split.test = read_real(value, path, from_below(0, 1));
         else
           data.split.test_roles = read_values(value, path, tests);
       },
       [](const DataConfig& data) {
         if (!data.split.test_roles.empty()) return write_values(data.split.test_roles);
         return data.split.test > 0 ? fmt::format("{}", data.split.test) : "";
       }});
  keys.push_back({"split.train", "a list of numbers or texts",
                  "column: the values whose rows train; rows of other values are left out; 0, \"train\", or the only "
                  "one that does not validate unless set. arrays: the array that lists or marks these rows",
                  [](DataConfig& data, const Value& value, const std::string& path) {
                    data.split.train_roles = read_values(value, path, "a list of numbers or texts");
                  },
                  [](const DataConfig& data) { return write_values(data.split.train_roles); }});
  add_key(keys, "split.column", MRMF_FIELD(split.column), {},
          "a data set of one number or word per row, which says what the row is for; with it, split.by is \"column\"; "
          "groups: what it belongs to, such as its subject, of which all rows are on one side; folds: the same where "
          "split.folds is set, or else the row's fold");
  add_folds(keys);
}

// Names of training or validation data: `spec` gives their specification.
template <class Spec>
void add_split(Keys<DataConfig>& keys, const std::string& part, Spec spec) {
  add_names(
      keys, part + ".samples", [=](auto& d) { return std::tie(spec(d).samples, spec(d).more_samples); },
      "data set of the " + part + " samples; of several, [\"density\", \"velocity\"], the channels follow each other");
  add_names(
      keys, part + ".labels", [=](auto& d) { return std::tie(spec(d).labels, spec(d).more_labels); },
      "the same of their labels; \"@omega_m\" is an attribute of the file, or of a sample's group, and "
      "\"density@omega_m\" one of a data set; of several, [\"@omega_m\", \"@sigma_8\"], the outputs follow each other");
}

void add_files(Keys<DataConfig>& keys) {
  add_key(
      keys, "files", MRMF_FIELD(train.files), {},
      "HDF5 files, read as one data set; patterns such as \"cubes/*.h5\" name all files that match, in alphabetical "
      "order, and \"cube{000..099}.h5\" the hundred of these numbers; relative paths start at the current directory");
  keys.back().write = [](const DataConfig& data) { return write(fold_numbers(data.train.files), {}); };
  add_key(
      keys, "rows", MRMF_FIELD(train.rows), one_of({"axis", "files", "groups"}),
      "what one sample is: a step along the first axis of its data set, all that the data set of one file holds, or "
      "all that the data set of one group holds; then names are within the group");
  add_key(
      keys, "groups", MRMF_FIELD(train.groups), {},
      "rows = \"groups\": the groups that are samples, such as \"sim_*\" or \"train/*\", in the order of their names; "
      "all that hold the data sets unless set");
  add_key(keys, "validation.groups", MRMF_FIELD(validation.groups), {},
          "the same for validation; data.groups unless set");
  add_split(keys, "train", MRMF_FIELD(train));
  add_key(keys, "validation.files", MRMF_FIELD(validation.files), {},
          "files of the validation split; data.files unless set");
  // Files of both are written once, so that a run's own configuration takes data.files of another place alone.
  keys.back().write = [](const DataConfig& data) {
    return data.validation.files == data.train.files ? "" : write(fold_numbers(data.validation.files), {});
  };
  add_split(keys, "validation", MRMF_FIELD(validation));
  add_key(keys, "test.files", MRMF_FIELD(test.files), {}, "files of the test split; data.files unless set");
  keys.back().write = [](const DataConfig& data) {
    return data.test.files == data.train.files ? "" : write(fold_numbers(data.test.files), {});
  };
  add_key(keys, "test.groups", MRMF_FIELD(test.groups), {}, "rows = \"groups\": the groups that test");
  add_split(keys, "test", MRMF_FIELD(test));
  add_key(
      keys, "split.by", MRMF_FIELD(split.by), one_of({"given", "rows", "files", "column", "arrays", "groups", "folds"}),
      "where validation samples come from: data.validation names them, or some of the rows or files that data.train "
      "names, chosen at random, or the rows that a data set of the files marks, or that arrays for each part list; "
      "groups: rows of one value of "
      "split.column, such as a subject, stay together; folds: one of several parts");
  add_split_column(keys);
  add_key(keys, "split.seed", MRMF_FIELD(split.seed), at_least(0), "rows, files, groups, folds: of the random choice");
  add_key(
      keys, "duplicates", MRMF_FIELD(duplicates), one_of(words_of<DuplicateRule>()),
      "the same rows named twice, or for training and for validation, by whatever names, links or virtual data sets: "
      "end with an error, or continue");
}

void add_names_of_labels(Keys<DataConfig>& keys) {
  const std::string file = "; what the labels' file says unless set: an enumeration, flag_meanings, or a list of names";
  add_key(keys, "names.classes", MRMF_FIELD(names.classes), {},
          "names of classes 0, 1, ..., for tables, plots and prediction files" + file);
  add_key(keys, "names.labels", MRMF_FIELD(names.labels), {},
          "the same of outputs that are numbers, or yes or no" + file);
  add_key(keys, "names.stored", MRMF_FIELD(names.stored), {},
          "what the labels' files call their numbers, such as \"2: owl\", as a run keeps it: other data that say "
          "something else are refused");
  const std::string units =
      ", in the order of their names, \"?\" where one does not say them: other data must have the "
      "same; what the training data's attributes say unless set";
  add_key(keys, "units.samples", MRMF_FIELD(units.samples), {}, "units of the arrays of samples" + units);
  add_key(keys, "units.labels", MRMF_FIELD(units.labels), {}, "the same of labels");
  add_key(keys, "sampling", MRMF_FIELD(sampling), one_of({"all", "balanced"}),
          "which samples an epoch takes: all, each once; or as many draws, in which every class is equally frequent");
}

void add_meaning(Keys<DataConfig>& keys) {
  add_key(
      keys, "axes", MRMF_FIELD(train.axes), {},
      "axes of the samples in the order of the files: n for samples, c for channels, any other name for a position, "
      "such as \"n c y x\"; without c there is one channel; samples first and channels last unless set");
  add_key(keys, "channels", MRMF_FIELD(channels), at_least(1),
          "channels of a sample: other data is refused, and a shape that looks unusual is taken as meant");
  add_key(keys, "layout", MRMF_FIELD(train.layout), one_of({"as_stored", "reinterpret"}),
          "how a stored sample is seen: positions by channels, or its flat buffer read the other way round");
  add_key(
      keys, "missing", MRMF_FIELD(train.missing), one_of(words_of<MissingRule>()),
      "rows that were never written, or come from a file that is not there: end with an error, or take the file's fill "
      "value for them");
  add_key(keys, "packing", MRMF_FIELD(train.packing), one_of(words_of<PackingRule>()),
          "attributes of netCDF and CF (scale_factor, add_offset, _FillValue, missing_value, valid_min, valid_max, "
          "valid_range, _Unsigned): apply them as numbers are read, what is missing becoming NaN, or ignore them");
  add_key(
      keys, "not_finite", MRMF_FIELD(train.not_finite), one_of(words_of<NotFiniteRule>()),
      "rows with NaN or infinity among their samples or labels: end with an error; leave them out and list them, for "
      "which all data is read once more at the start; or fill: NaN in samples is a missing number, for which the "
      "network sees data.fill, and averages count what is there");
  add_key(
      keys, "fill", MRMF_FIELD(fill), {},
      "not_finite = \"fill\": what the network sees of a missing number, in its units; one number, or one per channel; "
      "0 with mean_std, which is the mean, else the mean of what is there, measured over the training samples unless "
      "set");
  add_key(keys, "mask", MRMF_FIELD(train.mask), {},
          "not_finite = \"fill\": samples get one more channel, the last: 1 where all others are there, 0 where one is "
          "missing; at lower resolutions the share");
  add_normalisation(keys, "sample", MRMF_FIELD(normalise_samples), "; lower resolutions are averaged before that",
                    "; mean 0 and std 255 bring pixels to 0 to 1");
  add_normalisation(keys, "label", MRMF_FIELD(normalise_labels),
                    "; evaluate and predict give their results in the files' own units", "");
}

void add_augmentation(Keys<DataConfig>& keys) {
  const std::string counted = "; axes of positions count from 0";
  add_key(keys, "augment.flip", MRMF_FIELD(augment.flip), within(0, 2),
          "training samples are mirrored at random along these axes, such as [0, 1]" + counted);
  add_key(
      keys, "augment.turn", MRMF_FIELD(augment.turn), within(0, 2),
      "training samples have these axes in a random order, such as [0, 1]; with flip of the same axes, all turns by "
      "right angles and their mirror images" +
          counted);
  add_key(keys, "augment.shift", MRMF_FIELD(augment.shift), at_least(0),
          "training samples are shifted at random by at most so many positions along each axis; what leaves at one end "
          "comes in at the other");
  add_key(keys, "augment.noise", MRMF_FIELD(augment.noise), at_least(0),
          "normal noise is added to training samples, of a deviation up to this, in the network's units");
  add_key(
      keys, "augment.intensity", MRMF_FIELD(augment.intensity), within(0, 0.9),
      "training samples are multiplied by 1 - intensity to 1 + intensity, and -intensity to intensity is added, in the "
      "network's units");
  add_key(keys, "augment.zoom", MRMF_FIELD(augment.zoom), within(0, 1),
          "training samples, and labels with positions, are shrunk or stretched by up to 1 + zoom; classes take the "
          "nearest position's");
  add_key(keys, "augment.rotate", MRMF_FIELD(augment.rotate), within(0, 180),
          "the same turned by up to so many degrees in each plane of axes");
  const std::string vectors =
      ": as many for each vector as there are axes, along axis 0 first, such as [0, 1, 2]; flips and "
      "turns turn them, too";
  add_key(keys, "vectors.samples", MRMF_FIELD(vectors.samples), at_least(0),
          "channels of samples that are components of vectors" + vectors);
  add_key(keys, "vectors.labels", MRMF_FIELD(vectors.labels), at_least(0), "the same of labels with positions");
}

void add_patches(Keys<DataConfig>& keys) {
  add_key(
      keys, "patch", MRMF_FIELD(patch.size), at_least(1),
      "samples and labels with positions are trained on in random boxes of so many positions along each axis, such as "
      "[96, 96, 96], at any resolution; an epoch draws as many as cover each sample once; validation, evaluate and "
      "predict go over whole samples in windows of that size; whole samples unless set");
  add_key(
      keys, "patch_foreground", MRMF_FIELD(patch.foreground), within(0, 1),
      "the share of the boxes around a position of another class than class 0, or of a yes; its class is drawn first, "
      "so that all are equally frequent");
  add_key(keys, "patch_overlap", MRMF_FIELD(patch.overlap), within(0, 0.9),
          "the share of a window that its neighbour sees, too; outputs count less towards a window's borders");
}

void add_part(Keys<DataConfig>& keys) {
  constexpr double most = 1 << 16;
  add_key(
      keys, "part.of", MRMF_FIELD(train.piece.of), within(1, most),
      "equal parts of the training rows, of which one is trained on, as a trainer of a tournament has it; 1 for all");
  add_key(keys, "part.number", MRMF_FIELD(train.piece.number), at_least(0), "which part, counted from 0");
  add_key(keys, "part.held_out", MRMF_FIELD(train.piece.held_out), within(0, 0.9),
          "share of the part that is not trained on");
}

void add_reading(Keys<DataConfig>& keys) {
  add_key(keys, "shards", MRMF_FIELD(shards), at_least(0),
          "pieces the training data is cut into, a multiple of the ranks; 0 for one per rank");
  add_key(keys, "shuffle", MRMF_FIELD(shuffle), {}, "visit the samples in a new order every epoch");
  add_key(
      keys, "shuffle_over", MRMF_FIELD(shuffle_over), one_of({"shard", "all"}),
      "shuffle each shard's samples, which are then always the same rank's, or all samples: then every rank keeps, or "
      "streams, the whole data set");
  add_key(
      keys, "load", MRMF_FIELD(load), one_of({"auto", "memory", "stream"}),
      "read all samples at the start, or each when its batch comes; auto: at the start where they fit in data.memory");
  keys.push_back(memory_key());
  add_key(keys, "averaging", MRMF_FIELD(averaging), one_of({"load", "epoch"}),
          "average samples to a lower resolution once and keep the result, or whenever a batch is made of them");
  add_key(
      keys, "coarse_labels", MRMF_FIELD(coarse_labels), one_of({"shares", "majority"}),
      "classes with positions at a lower resolution: the share of each class, or the class that most positions have");
}

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

}  // namespace

template <>
std::vector<std::string> words_of<MissingRule>() {
  return {"refuse", "fill"};
}

template <>
std::vector<std::string> words_of<NotFiniteRule>() {
  return {"refuse", "skip", "fill"};
}

template <>
std::vector<std::string> words_of<DuplicateRule>() {
  return {"refuse", "allow"};
}

template <>
std::vector<std::string> words_of<PackingRule>() {
  return {"apply", "ignore"};
}

Keys<DataConfig> data_keys() {
  Keys<DataConfig> keys;
  add_files(keys);
  add_names_of_labels(keys);
  add_meaning(keys);
  add_augmentation(keys);
  add_patches(keys);
  add_part(keys);
  add_reading(keys);
  return keys;
}

namespace {

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
