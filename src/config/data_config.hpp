// Files, splits, normalisation, and how samples are read: settings of [data] and their keys. Those of files and rows
// have their fields in DatasetSpec (io/rows/dataset.hpp), those of boxes in PatchSettings (io/rows/sample_order.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/rows/sample_order.hpp"
#include "src/config/key_rules.hpp"

namespace mrmf {

/// How training and validation samples come out of the same files. given: by data.train and data.validation.
enum class SplitBy { given, rows, files, column, arrays, groups, folds };

/// A split that the program makes (io/rows/split.hpp).
struct SplitSettings {
  SplitBy by = SplitBy::given;
  double validation = 0.2;  ///< rows, files, groups: the share that validates
  double test = 0;          ///< rows, files, groups, folds: the share that tests
  /// column: a data set with a number or a word per row; groups: what rows belong to; folds: the same, or the fold
  std::string column;
  /// column: values whose rows train or validate, as texts (io/rows/split_column_and_groups.hpp: roles_of); empty: rows
  /// of 0 train, those of the one other number validate. arrays: names of the arrays that list or mark these rows.
  std::vector<std::string> train_roles, validation_roles;
  std::vector<std::string> test_roles;  ///< column, folds: values whose rows test; arrays: as above
  int folds = 0;                        ///< folds: so many are made; 0: the column's values are folds
  int fold = 0;                         ///< folds: the one that validates, from 0
  std::optional<bool> stratify;         ///< shares of every class; unset: of groups and folds
  std::uint64_t seed = 1;
  bool operator==(const SplitSettings&) const = default;
};

inline constexpr double kMostFolds = 1000;

/// Keys that have readings of their own (data_keys.cpp): split.validation, test and train, shares or values of the
/// column; split.folds.
void add_role_keys(KeyList<SplitSettings>& keys);
void add_folds_key(KeyList<SplitSettings>& keys);

inline void list_keys(KeyList<SplitSettings>& keys) {
  using S = SplitSettings;
  keys.add(
      "by", &S::by, one_of({"given", "rows", "files", "column", "arrays", "groups", "folds"}),
      "where validation samples come from: data.validation names them, or some of the rows or files that data.train "
      "names, chosen at random, or the rows that a data set of the files marks, or that arrays for each part list; "
      "groups: rows of one value of split.column, such as a subject, stay together; folds: one of several parts");
  add_role_keys(keys);
  keys.add("column", &S::column, {},
           "a data set of one number or word per row, which says what the row is for; with it, split.by is \"column\"; "
           "groups: what it belongs to, such as its subject, of which all rows are on one side; folds: the same where "
           "split.folds is set, or else the row's fold");
  add_folds_key(keys);
  keys.add("fold", &S::fold, within(0, kMostFolds),
           "folds: the one that validates, from 0; mrmf train --folds trains all of them");
  keys.add(
      "stratify", &S::stratify, {},
      "give every part its share of each class, where samples have one class each; of groups and folds unless set");
  keys.add("seed", &S::seed, at_least(0), "rows, files, groups, folds: of the random choice");
}

/// Samples or labels in other units: (f(x) - mean) / std per channel, with f(x) = log(1 + x) or x. Averaging to lower
/// resolutions comes first.
struct Normalisation {
  bool log1p = false;
  bool mean_std = false;          ///< with `mean` empty: both are measured over the training samples
  std::vector<double> mean, std;  ///< one number for all channels, or one per channel
  bool operator==(const Normalisation&) const = default;
};

/// Training samples changed at random, by a function of seed, epoch and sample. Axes count from 0, the first spatial
/// one.
struct Augmentation {
  std::vector<int> flip;     ///< axes that may be mirrored
  std::vector<int> turn;     ///< axes that may change places: turns by right angles in their planes
  std::vector<Index> shift;  ///< per axis: most positions of a periodic shift either way
  double noise = 0;          ///< most deviation of normal noise that is added, in the network's units
  double intensity = 0;      ///< most change: values are times 1 +- so much, and plus or minus so much, in those units
  double zoom = 0;    ///< most change of size: positions are apart by 1 / (1 + zoom) to 1 + zoom of what they were
  double rotate = 0;  ///< most degrees of a turn in each plane of axes
  bool any() const { return moves() || noise > 0 || intensity > 0; }
  /// Whether positions change, and labels' with them.
  bool moves() const { return !flip.empty() || !turn.empty() || !shift.empty() || resamples(); }
  /// Whether values are taken between positions.
  bool resamples() const { return zoom > 0 || rotate > 0; }
  bool operator==(const Augmentation&) const = default;
};

inline void list_keys(KeyList<Augmentation>& keys) {
  using A = Augmentation;
  const std::string counted = "; axes of positions count from 0";
  keys.add("flip", &A::flip, within(0, 2),
           "training samples are mirrored at random along these axes, such as [0, 1]" + counted);
  keys.add(
      "turn", &A::turn, within(0, 2),
      "training samples have these axes in a random order, such as [0, 1]; with flip of the same axes, all turns by "
      "right angles and their mirror images" +
          counted);
  keys.add(
      "shift", &A::shift, at_least(0),
      "training samples are shifted at random by at most so many positions along each axis; what leaves at one end "
      "comes in at the other");
  keys.add("noise", &A::noise, at_least(0),
           "normal noise is added to training samples, of a deviation up to this, in the network's units");
  keys.add(
      "intensity", &A::intensity, within(0, 0.9),
      "training samples are multiplied by 1 - intensity to 1 + intensity, and -intensity to intensity is added, in the "
      "network's units");
  keys.add("zoom", &A::zoom, within(0, 1),
           "training samples, and labels with positions, are shrunk or stretched by up to 1 + zoom; classes take the "
           "nearest position's");
  keys.add("rotate", &A::rotate, within(0, 180), "the same turned by up to so many degrees in each plane of axes");
}

/// Channels that are components of vectors, along the first axis, the second, and so on; several vectors follow each
/// other. Flips and turns of axes (data.augment) turn them, too.
struct VectorChannels {
  std::vector<int> samples, labels;
  bool operator==(const VectorChannels&) const = default;
};

inline void list_keys(KeyList<VectorChannels>& keys) {
  keys.add(
      "samples", &VectorChannels::samples, at_least(0),
      "channels of samples that are components of vectors: as many for each vector as there are axes, along axis 0 "
      "first, such as [0, 1, 2]; flips and turns turn them, too");
  keys.add("labels", &VectorChannels::labels, at_least(0), "the same of labels with positions");
}

/// Which training samples an epoch takes: each once, or as many draws so that classes are equally frequent.
enum class Sampling { all, balanced };

/// What classes and outputs are called, in their order; empty: their numbers.
struct Names {
  std::vector<std::string> classes, labels;
  std::vector<std::string> stored{};  ///< what files call the numbers of labels (LabelNames::texts())
  bool operator==(const Names&) const = default;
};

inline void list_keys(KeyList<Names>& keys) {
  const std::string file = "; what the labels' file says unless set: an enumeration, flag_meanings, or a list of names";
  keys.add("classes", &Names::classes, {}, "names of classes 0, 1, ..., for tables, plots and prediction files" + file);
  keys.add("labels", &Names::labels, {}, "the same of outputs that are numbers, or yes or no" + file);
  keys.add("stored", &Names::stored, {},
           "what the labels' files call their numbers, such as \"2: owl\", as a run keeps it: other data that say "
           "something else are refused");
}

/// Units of the arrays of samples and of labels, in the order of their names; empty: unresolved, or nothing says them.
struct Units {
  std::vector<std::string> samples, labels;
  bool operator==(const Units&) const = default;
};

inline void list_keys(KeyList<Units>& keys) {
  keys.add("samples", &Units::samples, {},
           "units of the arrays of samples, in the order of their names, \"?\" where one does not say them: other data "
           "must have the same; what the training data's attributes say unless set");
  keys.add("labels", &Units::labels, {}, "the same of labels");
}

/// What to do where the same rows are named twice, or train and validate.
enum class DuplicateRule { refuse, allow };
template <>
inline std::vector<std::string> words_of<DuplicateRule>() {
  return {"refuse", "allow"};
}

template <>
inline std::vector<std::string> words_of<MissingRule>() {
  return {"refuse", "fill"};
}
template <>
inline std::vector<std::string> words_of<NotFiniteRule>() {
  return {"refuse", "skip", "fill"};
}
template <>
inline std::vector<std::string> words_of<PackingRule>() {
  return {"apply", "ignore"};
}

enum class ShuffleOver { shard, all };
enum class LoadRule { automatic, memory, stream };

struct DataConfig {
  DatasetSpec train, validation;  ///< one layout; validation.files default to train.files
  DatasetSpec test;               ///< never read in training; samples empty: there is none
  SplitSettings split;
  Normalisation normalise_samples, normalise_labels;
  std::vector<double> fill;  ///< what the network sees of missing numbers: one, or one per channel; empty: unresolved
  Augmentation augment;
  VectorChannels vectors;
  PatchSettings patch;  ///< boxes that training takes of samples, and windows over whole ones
  Names names;
  Units units;
  Sampling sampling = Sampling::all;
  int shards = 0;  ///< 0: one per rank
  bool shuffle = true;
  ShuffleOver shuffle_over = ShuffleOver::shard;
  LoadRule load = LoadRule::automatic;
  std::optional<double> memory;  ///< GB (1e9 bytes) per node for samples; empty: half of its memory
  Averaging averaging = Averaging::load;
  CoarseLabels coarse_labels = CoarseLabels::shares;  ///< labels of averaged classes with positions
  DuplicateRule duplicates = DuplicateRule::refuse;
  std::optional<int> channels;  ///< required size of a sample's last axis: a check that changes no result
  bool operator==(const DataConfig&) const = default;
};

/// Keys that have readings or writings of their own (data_keys.cpp): the files of a part; the names of its data sets;
/// normalise.samples or labels; memory.
void add_files_key(KeyList<DataConfig>& keys, const std::string& path, DatasetSpec DataConfig::*part,
                   const std::string& meaning);
void add_dataset_keys(KeyList<DataConfig>& keys, const std::string& part, DatasetSpec DataConfig::*spec);
void add_normalise_key(KeyList<DataConfig>& keys, const std::string& one, Normalisation DataConfig::*field,
                       const std::string& more);
void add_memory_key(KeyList<DataConfig>& keys);

inline void list_files(KeyList<DataConfig>& keys) {
  using D = DataConfig;
  using Part = DatasetSpec;
  add_files_key(
      keys, "files", &D::train,
      "HDF5 files, read as one data set; patterns such as \"cubes/*.h5\" name all files that match, in alphabetical "
      "order, and \"cube{000..099}.h5\" the hundred of these numbers; relative paths start at the current directory");
  keys.add(
      "rows", &D::train, &Part::rows, one_of({"axis", "files", "groups"}),
      "what one sample is: a step along the first axis of its data set, all that the data set of one file holds, or "
      "all that the data set of one group holds; then names are within the group");
  keys.add(
      "groups", &D::train, &Part::groups, {},
      "rows = \"groups\": the groups that are samples, such as \"sim_*\" or \"train/*\", in the order of their names; "
      "all that hold the data sets unless set");
  keys.add("validation.groups", &D::validation, &Part::groups, {}, "the same for validation; data.groups unless set");
  add_dataset_keys(keys, "train", &D::train);
  add_files_key(keys, "validation.files", &D::validation, "files of the validation split; data.files unless set");
  add_dataset_keys(keys, "validation", &D::validation);
  add_files_key(keys, "test.files", &D::test, "files of the test split; data.files unless set");
  keys.add("test.groups", &D::test, &Part::groups, {}, "rows = \"groups\": the groups that test");
  add_dataset_keys(keys, "test", &D::test);
}

inline void list_meaning(KeyList<DataConfig>& keys) {
  using D = DataConfig;
  using Part = DatasetSpec;
  keys.add(
      "axes", &D::train, &Part::axes, {},
      "axes of the samples in the order of the files: n for samples, c for channels, any other name for a position, "
      "such as \"n c y x\"; without c there is one channel; samples first and channels last unless set");
  keys.add("channels", &D::channels, at_least(1),
           "channels of a sample: other data is refused, and a shape that looks unusual is taken as meant");
  keys.add("layout", &D::train, &Part::layout, one_of({"as_stored", "reinterpret"}),
           "how a stored sample is seen: positions by channels, or its flat buffer read the other way round");
  keys.add(
      "missing", &D::train, &Part::missing, one_of(words_of<MissingRule>()),
      "rows that were never written, or come from a file that is not there: end with an error, or take the file's fill "
      "value for them");
  keys.add("packing", &D::train, &Part::packing, one_of(words_of<PackingRule>()),
           "attributes of netCDF and CF (scale_factor, add_offset, _FillValue, missing_value, valid_min, valid_max, "
           "valid_range, _Unsigned): apply them as numbers are read, what is missing becoming NaN, or ignore them");
  keys.add(
      "not_finite", &D::train, &Part::not_finite, one_of(words_of<NotFiniteRule>()),
      "rows with NaN or infinity among their samples or labels: end with an error; leave them out and list them, for "
      "which all data is read once more at the start; or fill: NaN in samples is a missing number, for which the "
      "network sees data.fill, and averages count what is there");
  keys.add(
      "fill", &D::fill, {},
      "not_finite = \"fill\": what the network sees of a missing number, in its units; one number, or one per channel; "
      "0 with mean_std, which is the mean, else the mean of what is there, measured over the training samples unless "
      "set");
  keys.add(
      "mask", &D::train, &Part::mask, {},
      "not_finite = \"fill\": samples get one more channel, the last: 1 where all others are there, 0 where one is "
      "missing; at lower resolutions the share");
}

inline void list_normalisation(KeyList<DataConfig>& keys) {
  using D = DataConfig;
  add_normalise_key(keys, "sample", &D::normalise_samples, "; lower resolutions are averaged before that");
  keys.add("normalise.sample_mean", &D::normalise_samples, &Normalisation::mean, {},
           "mean_std: one number, or one per channel; measured over the training samples unless set");
  keys.add("normalise.sample_std", &D::normalise_samples, &Normalisation::std, above(0),
           "mean_std: the same for the divisor; mean 0 and std 255 bring pixels to 0 to 1; measured over the training "
           "samples unless set");
  add_normalise_key(keys, "label", &D::normalise_labels,
                    "; evaluate and predict give their results in the files' own units");
  keys.add("normalise.label_mean", &D::normalise_labels, &Normalisation::mean, {},
           "mean_std: one number, or one per channel; measured over the training labels unless set");
  keys.add("normalise.label_std", &D::normalise_labels, &Normalisation::std, above(0),
           "mean_std: the same for the divisor; measured over the training labels unless set");
}

inline void list_keys(KeyList<PatchSettings>& keys) {
  using P = PatchSettings;
  keys.add(
      "patch", &P::size, at_least(1),
      "samples and labels with positions are trained on in random boxes of so many positions along each axis, such as "
      "[96, 96, 96], at any resolution; an epoch draws as many as cover each sample once; validation, evaluate and "
      "predict go over whole samples in windows of that size; whole samples unless set");
  keys.add(
      "patch_foreground", &P::foreground, within(0, 1),
      "the share of the boxes around a position of another class than class 0, or of a yes; its class is drawn first, "
      "so that all are equally frequent");
  keys.add("patch_overlap", &P::overlap, within(0, 0.9),
           "the share of a window that its neighbour sees, too; outputs count less towards a window's borders");
}

/// The part of its rows that a trainer of a tournament has.
inline void list_part(KeyList<DatasetSpec>& keys) {
  using Part = DatasetSpec;
  keys.add(
      "of", &Part::piece, &RowPiece::of, within(1, 1 << 16),
      "equal parts of the training rows, of which one is trained on, as a trainer of a tournament has it; 1 for all");
  keys.add("number", &Part::piece, &RowPiece::number, at_least(0), "which part, counted from 0");
  keys.add("held_out", &Part::piece, &RowPiece::held_out, within(0, 0.9), "share of the part that is not trained on");
}

inline void list_reading(KeyList<DataConfig>& keys) {
  using D = DataConfig;
  keys.add("shards", &D::shards, at_least(0),
           "pieces the training data is cut into, a multiple of the ranks; 0 for one per rank");
  keys.add("shuffle", &D::shuffle, {}, "visit the samples in a new order every epoch");
  keys.add(
      "shuffle_over", &D::shuffle_over, one_of({"shard", "all"}),
      "shuffle each shard's samples, which are then always the same rank's, or all samples: then every rank keeps, or "
      "streams, the whole data set");
  keys.add(
      "load", &D::load, one_of({"auto", "memory", "stream"}),
      "read all samples at the start, or each when its batch comes; auto: at the start where they fit in data.memory");
  add_memory_key(keys);
  keys.add("averaging", &D::averaging, one_of({"load", "epoch"}),
           "average samples to a lower resolution once and keep the result, or whenever a batch is made of them");
  keys.add(
      "coarse_labels", &D::coarse_labels, one_of({"shares", "majority"}),
      "classes with positions at a lower resolution: the share of each class, or the class that most positions have");
}

inline void list_keys(KeyList<DataConfig>& keys) {
  using D = DataConfig;
  list_files(keys);
  keys.add_table("split.", &D::split, list_keys);
  keys.add(
      "duplicates", &D::duplicates, one_of(words_of<DuplicateRule>()),
      "the same rows named twice, or for training and for validation, by whatever names, links or virtual data sets: "
      "end with an error, or continue");
  keys.add_table("names.", &D::names, list_keys);
  keys.add_table("units.", &D::units, list_keys);
  keys.add("sampling", &D::sampling, one_of({"all", "balanced"}),
           "which samples an epoch takes: all, each once; or as many draws, in which every class is equally frequent");
  list_meaning(keys);
  list_normalisation(keys);
  keys.add_table("augment.", &D::augment, list_keys);
  keys.add_table("vectors.", &D::vectors, list_keys);
  keys.add_table("", &D::patch, list_keys);
  keys.add_table("part.", &D::train, list_part);
  list_reading(keys);
}

/// What values of keys of [data] were called by earlier versions.
inline constexpr std::array kFormerDataValues{FormerValue{"layout", "transpose", "as_stored"}};

}  // namespace mrmf
