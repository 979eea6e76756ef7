// What validation measures beside the loss: sums over samples, and the metrics that follow from them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Labels and outputs of one class, in numbers of positions.
struct ClassCount {
  double both = 0, predicted = 0, labelled = 0;
  double either() const { return predicted + labelled - both; }
  double iou() const { return both / either(); }  ///< NaN where the class does not occur
  double dice() const { return 2 * both / (predicted + labelled); }
};

/// Errors of one output.
struct ErrorSum {
  double count = 0, squares = 0, magnitudes = 0, labels = 0;
  double label_squares = 0, label_squares_rest = 0;  ///< their sum, and what its additions have rounded off
  /// 1 less the squared error over the labels' spread. NaN where all labels are the same, as far as float32 tells them
  /// apart: there is nothing to explain.
  double r2() const;
};

/// Channels of a position of the output in the targets. (Labels without positions may be as many as an output with
/// positions has numbers.)
inline Index target_channels(const Shape& target, const Shape& output) {
  return target.per_sample() / product(output.spatial);
}

/// Sums from which a task's metrics follow. Those of two sets of samples add up to those of both.
class MetricSums {
 public:
  /// Sums for outputs of this shape; `target_channels` of a position as a loss has them (kernels/operations.hpp).
  MetricSums(Task task, const Shape& output, Index target_channels);

  /// Adds rows in the host's memory, float32 and unpadded.
  void add(ConstSpan y, ConstSpan target);
  void clear();
  /// All sums, to be added over ranks.
  std::span<double> values() { return values_; }

  /// NaN where the labels leave it undefined: none counts, no class occurs, or no output's labels differ.
  double value(Metric metric) const;
  ClassCount of_class(Index c) const;  ///< binary: of an output's yes
  ErrorSum of_output(Index c) const;   ///< regression: of a channel

  /// Whether a sample's target has a label that counts.
  static bool counts(Task task, ConstSpan target, Index target_channels);
  /// The class with the largest of values; the label of a position (-1: ignored).
  static Index largest(ConstSpan values);
  static Index label(ConstSpan target);

 private:
  void add_errors(ConstSpan y, ConstSpan target);
  void add_classes(ConstSpan y, ConstSpan target);
  void add_yes_or_no(ConstSpan y, ConstSpan target);
  double* of(Index c);
  double accuracy() const;
  double mean_over_classes(double (ClassCount::*metric)() const) const;
  double mean_r2() const;

  Task task_;
  Index channels_, target_channels_;
  std::vector<double> values_;
};

/// What a run measures: what its configuration says, or accuracy for classes and dice where they have positions. None
/// for numbers, whose loss says it.
std::optional<Metric> metric_of(const TrainingConfig& training, const Shape& output);

}  // namespace mrmf
