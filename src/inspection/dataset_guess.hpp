// A first guess at a file that nothing is known of: which of its data sets are samples and labels, and what these are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"

namespace mrmf {

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
  bool attribute = false;  ///< of a sample that is a group or a file, "@om", or of its samples' array, "density@om"
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
/// sets fit together, with the reason where it can be told, and as guess_labels() of guess_parts.hpp.
/// Whether samples lie along an axis, or are one per file or group, is found by comparing some of either.
DatasetGuess guess_datasets(const std::vector<std::string>& paths, const GivenNames& given);

/// What `mrmf data` says where rows of a data set that is split by rows have a column whose values repeat, so that rows
/// of one subject may lie on both sides; "": there is none. Reads such columns of the first file.
std::string group_advice(const DatasetSpec& spec);

}  // namespace mrmf
