// What validation and `mrmf evaluate` measure beside the loss: probabilities of classes, the area under the ROC curve,
// and all metrics that follow from sums over samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/values/axes_and_channel_map.hpp"
#include "kernels/operations.hpp"
#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

// What outputs say of classes: the numbers that files of predictions hold and scores are made of.

/// Softmax over the channels of every position (classes), or sigmoids (yes or no).
std::vector<float> probabilities(Task task, Index channels, ConstSpan y);

/// - log of the softmax's share of class `label`, from the outputs of one position.
double log_loss(ConstSpan outputs, Index label);
/// - log of the probability of a yes-or-no label, from its one output before the sigmoid; the label is from 0 to 1.
double log_loss(double output, double label);

// The area under the ROC curve, exact on any number of ranks.

/// For each of several classes, the scores of what is of the class and of what is not. The area is the share of pairs,
/// one of each, in which the former has the larger score; equal scores count one half. It is counted in whole numbers,
/// so it is the same for any order and any ranks. Takes four bytes for each score.
class RankedScores {
 public:
  explicit RankedScores(Index classes) : classes_(static_cast<std::size_t>(classes)) {}

  void add(Index c, float score, bool is_of_class);
  /// Takes over what another has, which is empty then.
  void take(RankedScores& other);
  void clear();
  /// Makes the areas those of all ranks' scores, on each of them. Collective. Ranks tell each other the scores of the
  /// smaller side alone.
  void sum(Comm& team);

  /// NaN where one of the sides is empty.
  double area(Index c) const;
  bool empty() const { return classes_.empty(); }

 private:
  struct Sides {
    std::vector<float> yes{}, no{};
    // After sum(): of all ranks. Pairs count twice where the yes is larger, and once where both are equal.
    std::int64_t all_yes = 0, all_no = 0, pairs = 0;
    bool summed = false;
  };
  std::vector<Sides> classes_;
};

// What validation and `mrmf evaluate` measure beside the loss: sums over samples, and the metrics that follow from
// them. Training, evaluation and reports have no others.

/// Labels and outputs of one class, or of an output's yes, in numbers of positions. A share is NaN where there is
/// nothing to divide by.
struct ClassCount {
  double both = 0, predicted = 0, labelled = 0;
  double known = 0;  ///< positions with a label, of any class
  double either() const { return predicted + labelled - both; }
  double iou() const { return both / either(); }  ///< NaN where the class does not occur
  double dice() const { return 2 * both / (predicted + labelled); }
  double precision() const { return both / predicted; }
  double recall() const { return both / labelled; }
  double f1() const { return dice(); }
  /// Recall of those that are not of the class.
  double specificity() const { return (known - predicted - labelled + both) / (known - labelled); }
};

/// Errors of one output.
struct ErrorSum {
  double count = 0, squares = 0, magnitudes = 0, labels = 0;
  double label_squares = 0, label_squares_rest = 0;  ///< their sum, and what its additions have rounded off
  double mse() const { return squares / count; }
  double mae() const { return magnitudes / count; }
  double rmse() const;
  /// The labels' standard deviation. NaN where all of them are the same, as far as float32 tells them apart.
  double deviation() const;
  double relative_rmse() const { return rmse() / deviation(); }
  double relative_mae() const { return mae() / deviation(); }
  /// 1 less the squared error over the labels' spread. NaN without a deviation: there is nothing to explain.
  double r2() const;
};

/// What is counted, and of which outputs.
struct ScoreSettings {
  Task task = Task::regression;
  Shape output;
  Index target_channels = 1;  ///< channels of a position as a loss has them (kernels/operations.hpp)
  bool background = false;    ///< class 0 is the background, which means of IoU and Dice leave out
  bool log_loss = false;      ///< whether the logarithmic loss is counted
  bool ranked = false;        ///< whether areas under ROC curves are counted
  ChannelMap units{};         ///< regression: the network's units, from which errors go back to the labels' own
};

/// Channels of a position of the output in the targets. (Labels without positions may be as many as an output with
/// positions has numbers.)
inline Index target_channels(const Shape& target, const Shape& output) {
  return target.per_sample() / product(output.spatial);
}

/// Settings for a model of this task; `metric` needs nothing else, and null needs all but areas of positions.
ScoreSettings score_settings(const TrainingConfig& training, const Shape& output, Index target_channels,
                             const std::optional<Metric>& metric);

/// Sums from which a task's metrics follow. Those of two sets of samples add up to those of both.
class MetricSums {
 public:
  explicit MetricSums(ScoreSettings settings);
  MetricSums(Task task, const Shape& output, Index target_channels)
      : MetricSums(ScoreSettings{.task = task, .output = output, .target_channels = target_channels}) {}

  /// Adds rows in the host's memory, float32 and unpadded.
  void add(ConstSpan y, ConstSpan target);
  void clear();
  /// All sums but the ranked scores, to be added over ranks.
  std::span<double> values() { return values_; }
  RankedScores& ranked() { return ranked_; }
  /// Adds those of all ranks. Collective.
  void sum(Comm& team);

  /// NaN where the labels leave it undefined: none counts, no class occurs, or no output's labels differ. Means are
  /// over the classes that occur in labels or predictions, or over outputs; docs/guide/classes.md has every formula.
  double value(const Metric& metric) const;
  ClassCount of_class(Index c) const;  ///< binary: of an output's yes
  ErrorSum of_output(Index c) const;   ///< regression: of a channel
  double area(Index c) const;          ///< under the ROC curve, of a class against the rest
  const ScoreSettings& settings() const { return settings_; }

  /// Whether a sample's target has a label that counts.
  static bool counts(Task task, ConstSpan target, Index target_channels);
  /// The class with the largest of values; the label of a position (-1: ignored).
  static Index largest(ConstSpan values);
  static Index label(ConstSpan target);

 private:
  void add_errors(ConstSpan y, ConstSpan target);
  void add_in_units(ConstSpan y, ConstSpan target);
  void add_classes(ConstSpan y, ConstSpan target);
  void add_yes_or_no(ConstSpan y, ConstSpan target);
  double* of(Index c);
  double of_one(const Metric& metric, Index c) const;
  double mean(const Metric& metric) const;
  double accuracy() const;
  double balanced_accuracy() const;
  double weighted(MetricKind of) const;

  ScoreSettings settings_;
  Index channels_;
  std::vector<double> values_;
  RankedScores ranked_;
};

/// What a run measures: what its configuration says, or accuracy for classes and dice where they have positions. None
/// for numbers, whose loss says it.
std::optional<Metric> metric_of(const TrainingConfig& training, const Shape& output);

}  // namespace mrmf
