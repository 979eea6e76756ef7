// Evaluating a trained model: its outputs against labels (evaluate.cpp); and predicting: its outputs in a file, with
// data sets of the input files beside them (predict.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/output.hpp"
#include "io/rows/sample_reader.hpp"
#include "io/rows/split.hpp"
#include "io/values/class_names.hpp"
#include "mpi/comm.hpp"
#include "src/inference/trained_models.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

// Data sets of the input files that predictions have beside them (`mrmf predict --append`).

/// Data sets with a row per sample, in the samples' files: coordinates, ids, masks, times. Their rows are written in
/// the order of the samples, and only those of samples, under their own names and in their own type, or
/// unpacked, with the attributes that they have in the first file.
class AppendedData {
 public:
  /// Collective. Checks the names before any file is opened (ConfigError: one is given twice, or is among `taken`),
  /// then all files (DataError: no such data set, a type that is none, other than a row per sample, files that do not
  /// agree, also about units and what numbers are called).
  AppendedData(const std::vector<std::string>& names, const std::vector<std::string>& taken, const DatasetSpec& spec,
               const DatasetShape& shape, Comm& world);

  /// Collective.
  void create(Hdf5Output& out) const;
  /// On any rank.
  void write(Hdf5Output& out, Range samples);

  const std::vector<std::string>& names() const { return names_; }

 private:
  /// One of the data sets: what it is in all files.
  struct Column {
    std::vector<Index> shape;  ///< shape of all samples
    ElementType type = ElementType::other;
    PackingRule packing = PackingRule::apply;
    Index text = 0;                         ///< most bytes of a text; 0: these are numbers
    std::map<Index, std::string> values{};  ///< values of the enumeration that is its type in all files, which the root
                                            ///< knows; none: it is another type in some
    std::unique_ptr<RowSources> sources{};
  };
  /// Rows of an output.
  struct Destination {
    Hdf5Output& out;
    const std::string& name;
    Index first = 0;
  };
  void copy(const RowSource& from, Range rows, const Destination& to);
  void copy_words(const RowSource& from, Range rows, const Destination& to, Index bytes);
  void copy_attributes(Hdf5Output& out, const std::string& name, const Column& column) const;
  std::optional<Column> inspect_words(const std::string& name, const DatasetShape& shape) const;
  Column inspect(const std::string& name, const DatasetShape& shape) const;

  std::vector<std::string> names_;
  DatasetSpec spec_;
  StoredRows stored_;
  std::vector<Column> columns_;
  std::vector<std::byte> rows_;
};

// What `mrmf evaluate` prints of a task, and what `mrmf predict` makes of outputs.

/// A task's figures over samples, with all classes against each other.
class Scores {
 public:
  Scores(Task task, const Shape& output, Index target_channels);
  /// `names`: of classes or outputs; empty: their numbers.
  explicit Scores(const ScoreSettings& settings, std::vector<std::string> names = {});

  /// Adds rows in the host's memory, float32 and unpadded; `loss` is their sum.
  void add(ConstSpan y, ConstSpan target, double loss);
  /// Adds those of all ranks. Collective.
  void sum(Comm& world);

  /// Tables for people, with "-" for what is not defined. Regression: the errors of each output in its own unit and
  /// relative to its labels' deviation, and R^2. Else loss, accuracies, logarithmic loss and, per class and as means,
  /// precision, recall, F1, AUC, IoU and Dice; for classes also the share with the label among the five largest
  /// outputs, and the numbers of each label and prediction.
  std::string text() const;
  /// The same figures. One that is not defined, such as the IoU of a class that does not occur, is null.
  nlohmann::ordered_json json() const;
  /// How many samples have a label that counts. The loss is their mean.
  Index labelled() const { return static_cast<Index>(labelled_samples_); }

 private:
  nlohmann::ordered_json errors_json() const;
  nlohmann::ordered_json classes_json() const;
  std::string errors_text() const;
  std::string classes_text() const;
  std::string found_text() const;
  std::string relative_text() const;
  double loss() const;
  bool labels_are_alike() const;
  bool measured(MetricKind kind) const;
  double value(MetricKind kind, Index c = -1) const;  ///< for a class or output; below 0: the mean
  std::string confusion_text() const;

  std::string name(Index c) const;  ///< name of a class or output
  int widest() const;               ///< characters of a name

  Task task_;
  std::vector<std::string> names_;
  Index channels_, target_channels_;
  std::size_t target_;  // numbers of a sample's target
  bool positions_;
  MetricSums sums_;
  std::vector<double> confusion_;           // classes: [label][prediction]
  double loss_ = 0, labelled_samples_ = 0;  // loss and labelled samples of samples
  double in_first_ = 0, labelled_ = 0;      // labels with their output among the largest ones, and all labels
};

/// The class with the largest output, of every position.
std::vector<std::uint16_t> predicted_classes(Index channels, ConstSpan y);

// How well a trained model does on data with labels.

struct Evaluation {
  Scores scores;     ///< over all rows of all ranks, in the labels' own units
  DatasetSpec data;  ///< that was evaluated
  Index samples = 0;
  std::string warning;  ///< why there is nothing to score; else ""
};

/// What is scored of a model: everything, but areas under ROC curves of positions only where training.metric names
/// them.
ScoreSettings evaluation_settings(const Trained& t);

/// Runs one model on a data set. Collective; the same result on every rank. ConfigError for options that do not go
/// together; DataError where model, data or labels cannot be read or do not fit; FaultError for an output that is not
/// finite. requires: one model.
Evaluation evaluate(const ModelOptions& options, Comm& world);

// The outputs of trained models for every sample, in a file.

struct PredictOptions {
  ModelOptions model;  ///< several models of one kind are averaged; `output` is the HDF5 file to write
  Passes passes;
};

/// Writes data sets "prediction", "probability", "class", and "deviation" of several models or passes, in the labels'
/// own units; docs/guide/taking-away.md has their shapes. Reads no labels. Returns what was written, for people: "180
/// rows; prediction and probability 180x3, class". The file appears whole or not at all. Collective. ConfigError for
/// options that do not go together; DataError where model or data cannot be read or do not fit; FaultError for an
/// output that is not finite.
std::string predict(const PredictOptions& options, Comm& world);

}  // namespace mrmf
