// Evaluating a trained model: its outputs against labels.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/inference/trained_models.hpp"
#include "src/run/records.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

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
  double value(MetricKind kind, Index c = -1) const;  ///< of a class or output; below 0: the mean
  std::string confusion_text() const;

  std::string name(Index c) const;  ///< of a class or output
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

}  // namespace mrmf
