// A first guess at a file that nothing is known of: which of its data sets are samples and labels, and what these are;
// then the parts of the guess, which only the files of this folder use.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/files/text.hpp"  // in_small_letters()
#include "io/hdf5/file.hpp"
#include "io/rows/dataset.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// A first guess at a file that nothing is known of: which of its data sets are samples and labels, and what these are.

/// An array of a file.
struct FileArray {
  std::string name;
  std::vector<Index> shape;
  ElementType type = ElementType::other;
  std::string type_name;
  bool words = false;      ///< texts
  bool whole = false;      ///< whole numbers: integers that are not scaled
  std::string packing{};   ///< what is applied to its numbers as they are read; "": nothing
  bool may_miss = false;   ///< attributes tell what is missing
  bool scale = false;      ///< a dimension scale: neither samples nor labels
  bool unclear = false;    ///< as DatasetInfo's: only its stored numbers can be compared
  std::string file{};      ///< in which it lies
  bool ancillary = false;  ///< tells of another array's numbers, as marks of quality do (CF's ancillary_variables)
  bool attribute = false;  ///< a sample's, which is a group or a file, "@om", or its samples' array's, "density@om"
  std::string no_label{};  ///< why attributes say that it is none, to follow its name: "is a coordinate of 'x'"; or ""
  Index rows() const { return shape.empty() ? 0 : shape.front(); }
  Index per_row() const;
  /// What words are looked for in: of attributes, without the name of whose they are.
  std::string called() const { return attribute ? name.substr(name.rfind('@') + 1) : name; }
  bool complex() const { return type_name.starts_with("complex "); }    ///< the last axis: real and imaginary part
  bool integer() const { return type == ElementType::other || whole; }  ///< if it is of numbers
};

/// Names given by the user; "" is looked for.
struct GivenNames {
  std::string samples, labels, axes;
  PackingRule packing = PackingRule::apply;
};

/// Arrays that list or mark the rows of each part (io/rows/split_column_and_groups.hpp); empty: there are none.
struct SplitArrays {
  std::string train, validation, test;
  bool empty() const { return train.empty(); }
  bool has(const std::string& name) const { return name == train || name == validation || name == test; }
};

struct DatasetGuess {
  std::string samples, labels;
  std::vector<std::string> more_labels{};             ///< further ones, whose numbers follow
  RowsBy rows = RowsBy::axis;                         ///< data.rows
  std::string groups{}, validation_groups{};          ///< data.groups, and those of validation
  std::string validation_samples, validation_labels;  ///< "": no data sets for validation were found
  std::string axes;                                   ///< data.axes; "": samples first, channels last
  PackingRule packing = PackingRule::apply;
  bool may_miss = false;  ///< attributes of the samples tell what is missing
  LabelKind kind = LabelKind::numbers;
  Index outputs = 1;                            ///< classes, or numbers per sample or position
  std::vector<std::string> class_values{};      ///< training.class_values, where labels are no numbers from 0 on
  std::optional<int> ignore{};                  ///< training.ignore
  std::string split_column{};                   ///< a data set that says which rows validate; "": none was found
  std::vector<std::string> split_validation{};  ///< its values whose rows validate; empty: other numbers than 0
  SplitArrays split_arrays{};                   ///< those that list or mark the rows of each part
  std::string no_split_arrays{};                ///< why arrays that are named so are not taken; "": there are none
  std::string group_column{};                   ///< a data set of what rows belong to; "": none was found
  std::vector<std::string> reasons;             ///< a line for each guess, for people
};

/// Chooses by the first file's shapes, types and names, and reads the labels of all files. DataError when no two data
/// sets fit together, with the reason where it can be told, and as guess_labels() throws.
/// Whether samples lie along an axis, or are one per file or group, is found by comparing some of either.
DatasetGuess guess_datasets(const std::vector<std::string>& paths, const GivenNames& given);

/// What `mrmf data` says where rows of a data set that is split by rows have a column whose values repeat, so that rows
/// of one subject may lie on both sides; "": there is none. Reads such columns of the first file.
std::string group_advice(const DatasetSpec& spec);

// The parts of guess_datasets(): what labels are, which rows validate, where the samples of a file lie, and what names
// say of arrays. Private to src/inspection.

class Hdf5File;

/// What a file says of its data sets, in the order of `paths`, which are their names. What numbers the positions of
/// others is marked as a scale: dimension scales, and the bounds of coordinates (CF). What attributes say is a time or
/// another array's coordinate is told as no label, and what tells of another array's numbers is marked, too.
std::vector<FileArray> facts_of(const Hdf5File& file, const std::vector<std::string>& paths);

// What labels are, guessed from their values, type and shape: numbers, yes or no, or classes.

/// Whether an array may be labels of samples of these axes (data.axes): numbers per sample, or per position of the
/// samples.
bool labels_fit(const FileArray& labels, const FileArray& samples, const std::string& axes);

/// How labels lie beside samples.
struct LabelLayout {
  bool positions = false;             ///< one or more per position
  Index width = 1;                    ///< numbers per sample or position
  bool single = false;                ///< (n, W) with samples of W positions: one per position if they are classes
  std::optional<ChannelBox> moves{};  ///< the axis of the width to the end; none: it is there
};
/// DataError where they do not fit.
LabelLayout layout_of(const FileArray& labels, const FileArray& samples, const std::string& path,
                      const std::string& axes);

/// Reads the labels of all files, for training and for validation, and sets guesses.kind and guesses.outputs;
/// guesses.axes and the names are known. Classes are whole numbers in integers, from 0 or 1 on and nearly without gaps,
/// beside which one negative number, or 255, may stand for no label; -1 and 1; words; and one-hot rows, of floats too:
/// guesses.class_values and guesses.ignore say which. A line among the reasons says so where floats look like classes,
/// or classes are many. DataError: labels of several axes whose positions are not the samples', labels that cannot be
/// read, and labels of positions that are a few whole numbers far apart.
void guess_labels(const std::vector<std::string>& paths, const FileArray& labels, const FileArray& samples,
                  DatasetGuess& guesses);

// What the labels of a data set hold, gathered one by one.

constexpr std::size_t kFewNumbers = 16;  ///< as few different numbers as this are hardly measured ones

struct LabelValues {
  static constexpr Index kMostCounted = 65536;  ///< whole numbers of which is known which there are

  bool whole = true, from_0_to_1 = true;
  double least = 0, most = 0;
  Index count = 0;
  std::bitset<kMostCounted> classes;  ///< which of the whole numbers from 0 on there are
  std::set<float> others;             ///< a few of all other numbers
  bool one_hot = true;                ///< every label has a single 1, and zeros, but for rounding
  Index labels = 0, not_one_hot = 0, first_not_one_hot = -1;  ///< labels of several numbers; those that are not so
  bool marked = true;  ///< every label has a single number that is larger than all others, which are one
  std::optional<std::pair<float, float>> marks{};  ///< these: the others, and the larger one
  std::set<std::string> words;                     ///< the different ones, of labels that are words

  void add(float value);
  /// Whether further labels of several numbers can tell anything: they are marks so far, or nearly all are.
  bool may_be_marks() const {
    constexpr Index kFew = 64;
    return one_hot || marked || not_one_hot <= kFew + labels / 8;
  }
  /// A label of several numbers. One that is not finite says nothing: its row is left out.
  void add_label(ConstSpan label);
  std::size_t distinct() const { return classes.count() + others.size(); }
  std::vector<float> listed() const;  ///< the different numbers, where they are few
  /// What is odd about words that are classes by themselves, and may not be meant so; "" where nothing is.
  std::string odd_words() const;
};

/// What programs write where there is nothing: "nan", "NA", "None", "null", in small letters or capitals.
bool may_say_no_label(const std::string& word);

/// "0.43": a number that a file has as a text.
bool is_number_text(const std::string& word);

// Which array is the labels.

/// The best of some arrays, and others that a user may have meant.
struct Choice {
  const FileArray* best = nullptr;
  std::vector<std::string> others;  ///< their names
  bool spaced = false;              ///< the best is so, as Learnable has it, and nothing better was found

  template <class Likely>
  void add_others(const std::vector<const FileArray*>& candidates, const Likely& likely) {
    for (const FileArray* array : candidates)
      if (array != best && likely(*array)) others.push_back(array->name);
  }
  void tell(const std::string& as, std::vector<std::string>& reasons) const;
};

/// A few of many names, for people: "'a', 'b' and 3 more".
std::string some_names(const std::vector<std::string>& names);
/// Names, shapes and types; a few of many.
std::string list_of(const std::vector<FileArray>& arrays);

/// The labels beside these samples, of those among which a file's or all samples' arrays are. guess.axes,
/// guess.split_column and how samples lie in the files are known; a line among the reasons tells of others that may be
/// meant, and of those from which there is nothing to learn. Reads what may be labels, as far as needed. DataError
/// where nothing serves, with `hint`.
const FileArray& find_labels(const std::vector<FileArray>& arrays, const FileArray& samples,
                             const std::vector<std::string>& paths, const std::string& hint, DatasetGuess& guess);

/// Why labels of which the samples' rows lie in another axis do not serve, where that can be told; "" where not.
std::string why_no_labels(const std::vector<FileArray>& arrays, const FileArray& samples);
/// What is in an array that holds no numbers, and what to do: a sentence for people.
std::string why_no_numbers(const FileArray& array);
/// Whether an array has its rows in its last axis, as MATLAB stores them.
bool lies_turned(const FileArray& array, Index rows);
bool holds_rows_of_numbers(const FileArray& array);

/// What may be learnt from an array as labels, beside all that its name and shape say.
struct Learnable {
  /// Why nothing may, to follow the array's name: "counts the rows from 0 on"; "": something may.
  std::string nothing;
  bool unlikely = false;   ///< as below, or words of which nearly all differ
  bool spaced = false;     ///< numbers at one distance from row to row, as coordinates and times have
  bool fractions = false;  ///< and not whole, as what a design varies may be, too
  bool missing = false;    ///< no number is there
};
/// Reads the array in all files until that is known; how samples lie in them is known. What cannot be read is found out
/// later, and may be learnt from.
Learnable learnable_from(const FileArray& array, const std::vector<std::string>& paths, const DatasetGuess& guess);

// Arrays that are one sample each, in a file of many.

/// Whether what may be labels is rather a sample as these are, or belongs to another one: "img_1" or "mask_1" beside
/// "img_0", "dog/x" beside "cat/x".
bool is_another_sample(const FileArray& labels, const FileArray& samples, const std::vector<FileArray>& arrays);
/// Whether the array that looks most like samples is one of many that are one sample each.
bool is_array_per_sample(const FileArray& samples, const std::vector<FileArray>& arrays);
/// What to do about it, for people; "" where too few arrays are alike.
std::string array_per_sample_text(const FileArray& samples, const std::vector<FileArray>& arrays);
/// names_of() but those data sets in which a library keeps what belongs to others, and which no user has named:
/// MATLAB's cells and PyTables' indices; and those that nobody can read.
FileNames users_names(const std::string& path);

// Which array says of each row whether it trains or validates, guessed from names and values.

/// Sets look.split_arrays where arrays of all files list the rows of each part ("train_idx", "val_idx") or mark
/// them ("train_mask", "val_mask"). Else sets look.split_column and look.split_validation where a column of the first
/// file holds words such as "train" and "val", or is a mark of 0 and 1 that is named like validation. Other values may
/// be folds or roles, which only the user knows: a line among the reasons tells of those that are named so. Reads the
/// columns. `arrays` are all of a file or, of groups and files that are samples, RowLayout::columns; how samples lie is
/// known.
void find_split_column(const std::vector<FileArray>& arrays, const FileArray& samples,
                       const std::vector<std::string>& paths, DatasetGuess& look);

// Whether files keep their samples along an axis, one per file, or one per group: guessed by comparing files, and
// groups of a file, with each other.

struct RowLayout {
  RowsBy rows = RowsBy::axis;
  std::string groups;             ///< data.groups
  std::string first_group{};      ///< one of these, of which the arrays were looked at
  std::string validation_groups;  ///< data.validation.groups; "": none were found
  /// What may be samples and labels, with the number of all samples as their first axis; attributes are "@<name>", and
  /// "density@<name>" those of the samples' array.
  /// Numbers that are the same in several samples are not among them: coordinates, for example.
  std::vector<FileArray> arrays;
  /// Where groups or files are samples: what is a number or a word in each, and may say what it is for.
  std::vector<FileArray> columns{};
  std::string why_not{};              ///< groups or files that look like samples are none; "": nothing is to be said
  std::string text_labels{};          ///< what might be their labels is a text, and a number as it reads; or ""
  std::set<std::string> constants{};  ///< arrays in those that hold the same few numbers in all of them
  std::vector<std::string> reasons;   ///< a line for each guess, for people
  const std::string& hint() const { return why_not.empty() ? text_labels : why_not; }  ///< where no labels are found
};

/// `names` and `first` are those and the arrays of the first file, which an axis of samples is assumed for. Where
/// samples are one per file or per group, as many of either have the same arrays of the same shapes, and no array that
/// could be labels along the first axis. DataError when a file cannot be read.
RowLayout find_rows(const std::vector<std::string>& paths, const FileNames& names, std::vector<FileArray> first,
                    const GivenNames& given);

// Which axis holds channels.

/// What the file says of the samples' axes, without that of the rows.
std::vector<NamedAxis> axes_named_in(const std::string& path, const RowLayout& layout, const FileArray& samples);
/// data.axes; "" where channels come last. An axis that the file calls horizontal is one of positions; another one
/// holds channels if it is called so, or is short. Of axes of which the file says nothing, their lengths decide. A line
/// among the reasons tells what was taken, and why.
std::string guess_axes(const FileArray& samples, const std::vector<NamedAxis>& named,
                       std::vector<std::string>& reasons);

// Families of groups, of which each group may be one sample.

/// Groups at one depth of a file that hold arrays of the same names.
struct GroupFamily {
  std::size_t depth = 0;            ///< slashes in their paths
  std::vector<std::string> groups;  ///< paths
  std::vector<std::string> names;   ///< names of the arrays, within each
};

/// Those of a file's data sets that may be samples, a few, the most numerous ones first.
std::vector<GroupFamily> likely_families(const std::vector<std::string>& datasets);

/// The groups of a family, by what the names above them say.
struct GroupParts {
  std::vector<std::string> train, validation;
};

/// Where some lie in groups named like training or validation ("train/sim_3", "val/sim_7"); else all are the first.
/// Test groups validate where no others do.
GroupParts split_groups(const std::vector<std::string>& groups);

/// What fits these groups, level by level: "train/sim_*". "" for no groups.
std::string pattern_of(const std::vector<std::string>& groups);

/// For people: groups of a file that hold an array of this name and are none of these; "" where there is none.
std::string unused_groups(const FileNames& names, const std::string& samples, const std::set<std::string>& used);
/// unused_groups() of the first file of which a configuration leaves out some, with the file's path. Opens the files.
std::string unused_groups(const FoundDataset& train, const FoundDataset& validation);

// What names of arrays say of them: words such as "train", "val" or "label".

/// By the name, as one of its words.
bool is_for_training(const std::string& name);
bool is_held_out(const std::string& name);  ///< validation or test
bool is_for_tests(const std::string& name);
bool is_only_held_out(const std::string& name);  ///< and not for training, too
bool is_like_labels(const std::string& name);
/// Whether both have the same name, but that one of its words is one for labels: "b_x" and "b_y", "images" and
/// "labels".
bool is_named_beside(const std::string& labels, const std::string& samples);
/// What rows are for, whatever is in it: "split", "fold", "role", ...
bool is_like_split(const std::string& name);
/// A mark of the rows that train, and of those that do not: "is_train", "train_mask", "val_mask", "in_test".
bool is_training_mark(const std::string& name);
bool is_held_out_mark(const std::string& name);
/// Whose numbers are folds.
bool is_like_fold(const std::string& name);
/// Numbers of rows of a part: "train_idx", "val_indices", "split/test".
bool is_like_row_list(const std::string& name);
/// A mark of the rows that validate: named as held_out(), or as what is held out.
bool is_like_mark(const std::string& name);
/// Numbers that count or name the samples, or mark a split: hardly what a network is to learn.
bool is_like_row_numbers(const std::string& name);

/// An attribute of an array that says how its numbers are to be read or shown, or what they range over.
bool is_about_numbers(const std::string& attribute);

/// By the name of the array itself, whatever its groups are called: "x-coordinate", "dim1", "lat", "time".
bool is_like_coordinate(const std::string& name);

/// What rows belong to, of which several come from one: a subject, a patient, a simulation.
bool is_like_group(const std::string& name);

/// Names with `word` in place of "train" or "training", in small letters: in all places, then in the first alone. None
/// where there is no such word.
std::vector<std::string> partner_names(const std::string& name, const std::string& word);

/// Sets look.group_column where a column of the first file, of whole numbers or words that repeat, is named like what
/// rows belong to, such as their subject; a line among the reasons tells of it, or of one that may be such. Reads the
/// columns, of groups and files that are samples of all.
void find_group_column(const std::vector<FileArray>& arrays, const FileArray& samples, const FileArray& labels,
                       const std::vector<std::string>& paths, DatasetGuess& look);

}  // namespace mrmf
