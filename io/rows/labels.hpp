// Labels of a data set: this rank's, in memory, as targets at any resolution; and those of several data sets that
// differ in their positions, as a list of numbers per sample.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/rows/class_values.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/sample_order.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/tensor.hpp"

namespace mrmf {

// Labels of a data set: this rank's, in memory, as targets at any resolution.

/// The shape of one sample's targets at a resolution, n = 0. Labels without positions are the same at all of them. With
/// positions, blocks of factors' neighbours become one: numbers their mean, classes as LabelForm::coarse says.
/// ConfigError when a factor does not divide an axis of the labels.
Shape target_shape(const Shape& label, const LabelForm& form, const Extent& resolution);

/// Classes take one byte each, or two where there are many; numbers four.
ElementType label_storage(const LabelForm& form);

/// The number of classes of labels of a form of classes that are one-hot: rows, or positions of them, of a single 1 and
/// zeros, or of the form's ignored value alone; 0: they are not. The file's first rows tell, where there is an axis
/// more than classes need; (n, W) beside 1-D samples of W positions are a class for each. `shape` has the shape of
/// samples. DataError when the rows cannot be read.
Index one_hot_width(const RowSource& labels, const DatasetShape& shape, const DatasetSpec& spec);

/// Whether the channels of labels, stored as (n, ...), must be moved to the end as those of samples. Labels with as
/// many axes are stored as the samples are, unless their positions are the samples' with channels last alone.
bool labels_move(const std::vector<Index>& stored, const Shape& sample, const AxisOrder& order);

class Labels {
 public:
  /// Reads rows of `owned` and checks them. Classes, and yes or no, that are missing by the attributes of their array
  /// are ignored. DataError (file, data set, row in that file): other NaN, infinity, a class that
  /// is none, a row that is not one-hot among such, a probability outside of 0 to 1. Not collective.
  Labels(const DatasetSpec& spec, const DatasetShape& shape, Range owned);

  Shape shape(const Extent& resolution) const { return target_shape(label_, form_, resolution); }
  /// The targets of a row, counted from the first one owned. Ignored ones are -1, or have shares of zero.
  void write(const Extent& resolution, Index row, Span target) const;
  /// The targets of a row at the positions of a box, which is of that resolution.
  void write(const Extent& resolution, Index row, const Box& box, Span target) const;
  /// Positions of a row that are of another class than the first, or whose yes it is; evenly spread where a class has
  /// many.
  Foreground foreground(Index row) const;

  /// How many of the labels here are of each class.
  const std::vector<Index>& counts() const { return counts_; }
  /// The class of a row whose label is one class, counted from the first one owned; -1: it is ignored.
  std::int32_t class_of(Index row) const;
  /// How many of the rows here have a label that counts. Averaging changes nothing about it: factors divide the axes.
  Index labelled() const { return labelled_; }

 private:
  void write(const std::byte* from, const Shape& label, const Extent& resolution, Span target) const;
  /// Consecutive rows of one name in one file.
  struct Rows {
    const RowSource& source;
    Index first, count;
    Shape label;  // shape of a row's label
    bool moves;   // its channels, to the end
  };
  void read(const OpenRows& open, Range rows, Index to);
  /// Reads and checks them. Classes become numbers from 0 on, in `values`, of which there may be fewer then.
  void read_checked(const Rows& rows, std::vector<float>& values) const;
  void read_words(const Rows& rows, std::vector<float>& values) const;
  void to_classes(const Rows& rows, const std::byte* stored, std::vector<float>& values) const;
  void require_told_apart(const RowSource& source) const;
  /// What a number, stored in this type, is among classes: see to_classes().
  std::optional<float> class_of(const RowSource& source, double label) const;
  void keep(ConstSpan values, std::byte* to);
  void keep_classes(ConstSpan values, std::byte* to);
  void take_probabilities(const Rows& rows, Span values) const;
  [[noreturn]] void refuse_class(const std::string& where, double label) const;
  [[noreturn]] static void refuse_one_hot(const std::string& where, ConstSpan label);

  Shape label_, sample_;
  Index one_hot_;  // numbers of each label in the file; 0: one
  LabelForm form_;
  ClassValues classes_;
  LabelNames names_;
  AxisOrder order_;  // order of samples, and of labels that labels_move() names
  ElementType type_;
  std::vector<std::byte> stored_;
  std::vector<Index> counts_;
  Index labelled_ = 0;
};

// Labels of several data sets that differ in their positions, such as scalars and images: a list of numbers per sample.

/// The shape of labels, and which of them come first, where the sources (of one file) are such; none: all of them have
/// the same positions, or none. `samples` has the number of samples. DataError, naming the data set: words among them,
/// or another number of rows.
std::optional<std::pair<Shape, MixedLabels>> mixed_labels(std::span<const std::unique_ptr<const RowSource>> sources,
                                                          const DatasetSpec& spec, const DatasetShape& samples);

/// The first of mixed labels, those without positions, as labels of their own: how to read them, and their shape.
std::pair<DatasetSpec, DatasetShape> first_of_mixed(const DatasetSpec& spec, const DatasetShape& shape);

}  // namespace mrmf
