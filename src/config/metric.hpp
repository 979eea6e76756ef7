// The scores that validation can measure beside the loss: their words, and which way they get better.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "kernels/operations.hpp"

namespace mrmf {

/// What src/training/metrics.hpp counts. In the order of metric_kind_words().
enum class MetricKind {
  accuracy,
  iou,
  dice,
  r2,
  balanced_accuracy,
  precision,
  recall,
  f1,
  precision_weighted,
  recall_weighted,
  f1_weighted,
  auc,
  log_loss,
  iou_with_background,
  dice_with_background,
  rmse,
  mae,
  relative_rmse,
  relative_mae
};

inline const std::vector<std::string>& metric_kind_words() {
  static const std::vector<std::string> words{"accuracy",
                                              "iou",
                                              "dice",
                                              "r2",
                                              "balanced_accuracy",
                                              "precision",
                                              "recall",
                                              "f1",
                                              "precision_weighted",
                                              "recall_weighted",
                                              "f1_weighted",
                                              "auc",
                                              "log_loss",
                                              "iou_with_background",
                                              "dice_with_background",
                                              "rmse",
                                              "mae",
                                              "relative_rmse",
                                              "relative_mae"};
  return words;
}

/// A score as one number: a mean over classes or outputs, or that of one of them.
struct Metric {
  MetricKind kind = MetricKind::accuracy;
  int of = -1;  ///< this class or output alone; below 0: the mean, or the only one
  auto operator<=>(const Metric&) const = default;
  static const Metric accuracy, iou, dice, r2;
};
inline constexpr Metric Metric::accuracy{MetricKind::accuracy, -1};
inline constexpr Metric Metric::iou{MetricKind::iou, -1};
inline constexpr Metric Metric::dice{MetricKind::dice, -1};
inline constexpr Metric Metric::r2{MetricKind::r2, -1};

/// "dice"; of class 2 alone "dice:2".
std::string to_string(const Metric& metric);
/// The way back; none where the text is no metric, or names one class of a metric that has no such.
std::optional<Metric> metric_from(const std::string& text);
/// "accuracy, iou, ... or r2", of a task or of all.
std::string metric_choices(std::optional<Task> task = {});

/// Whether a metric is one of this task's.
bool fits(MetricKind kind, Task task);
/// Whether smaller is better.
bool falls(MetricKind kind);
/// Whether 1 is the best that there is.
bool up_to_one(MetricKind kind);
/// The value as one that rises while a model gets better.
inline double rising(const Metric& metric, double value) { return falls(metric.kind) ? -value : value; }

/// A metric of the validation data; its key is "validation_accuracy" and so on.
struct MetricValue {
  Metric metric = Metric::accuracy;
  double value = 0;  ///< NaN where it is not defined
  bool operator==(const MetricValue&) const = default;
};

/// A metric's value as monitored() takes it (src/plan/learning_rate_and_stop_rule.hpp): larger is better.
inline std::optional<double> rising(const std::optional<MetricValue>& metric) {
  return metric ? std::optional(rising(metric->metric, metric->value)) : std::nullopt;
}

struct MetricTarget {
  Metric metric = Metric::accuracy;
  double least = 0;  ///< the most, for a metric that falls
  bool reached(double value) const { return rising(metric, value) >= rising(metric, least); }
  bool operator==(const MetricTarget&) const = default;
};

}  // namespace mrmf
