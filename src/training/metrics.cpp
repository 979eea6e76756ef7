#include "src/training/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

// The sums of classes: what counts and what is right, then three numbers per class. Those of numbers: six per output.
constexpr Index kCommon = 2, kPerClass = 3, kPerOutput = 6;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double ErrorSum::r2() const {
  constexpr double same = 3e-15;  // share of the squares: labels that float32 does not tell apart
  const double all = label_squares + label_squares_rest, spread = all - labels * labels / count;
  return spread > same * all ? 1.0 - squares / spread : kUndefined;
}

MetricSums::MetricSums(Task task, const Shape& output, Index target_channels)
    : task_(task),
      channels_(output.channels),
      target_channels_(target_channels),
      values_(static_cast<std::size_t>(task == Task::regression ? kPerOutput * channels_
                                                                : kCommon + kPerClass * channels_)) {}

void MetricSums::add(ConstSpan y, ConstSpan target) {
  MRMF_CHECK(std::ssize(y) / channels_ == std::ssize(target) / target_channels_, "labels and outputs do not fit");
  switch (task_) {
    case Task::regression: return add_errors(y, target);
    case Task::binary: return add_yes_or_no(y, target);
    case Task::classes: return add_classes(y, target);
  }
}

void MetricSums::clear() { std::ranges::fill(values_, 0.0); }

double* MetricSums::of(Index c) {
  return values_.data() + (task_ == Task::regression ? kPerOutput * c : kCommon + kPerClass * c);
}

void MetricSums::add_errors(ConstSpan y, ConstSpan target) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    double* const sums = of(static_cast<Index>(i) % channels_);
    const double label = target[i], error = y[i] - label;
    sums[0] += 1;
    sums[1] += error * error;
    sums[2] += std::abs(error);
    sums[3] += label;
    const double square = label * label, sum = sums[4] + square, added = sum - sums[4];
    sums[5] += (sums[4] - (sum - added)) + (square - added);
    sums[4] = sum;
  }
}

void MetricSums::add_classes(ConstSpan y, ConstSpan target) {
  const auto channels = static_cast<std::size_t>(channels_), wide = static_cast<std::size_t>(target_channels_);
  for (std::size_t i = 0; i * channels < y.size(); ++i) {
    const Index labelled = label(target.subspan(i * wide, wide));
    if (labelled < 0) continue;
    const Index predicted = largest(y.subspan(i * channels, channels));
    values_[0] += 1;
    values_[1] += predicted == labelled ? 1 : 0;
    of(predicted)[0] += predicted == labelled ? 1 : 0;
    of(predicted)[1] += 1;
    of(labelled)[2] += 1;
  }
}

// Logits above 0 are a yes, and shares above a half.
void MetricSums::add_yes_or_no(ConstSpan y, ConstSpan target) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (target[i] < 0) continue;
    const bool predicted = y[i] > 0, labelled = target[i] > 0.5F;
    double* const sums = of(static_cast<Index>(i) % channels_);
    values_[0] += 1;
    values_[1] += predicted == labelled ? 1 : 0;
    sums[0] += predicted && labelled ? 1 : 0;
    sums[1] += predicted ? 1 : 0;
    sums[2] += labelled ? 1 : 0;
  }
}

Index MetricSums::largest(ConstSpan values) { return std::ranges::max_element(values) - values.begin(); }

Index MetricSums::label(ConstSpan target) {
  if (target.size() == 1) return static_cast<Index>(target[0]);
  const Index most = largest(target);
  return target[static_cast<std::size_t>(most)] > 0 ? most : -1;
}

ClassCount MetricSums::of_class(Index c) const {
  const auto at = static_cast<std::size_t>(kCommon + kPerClass * c);
  return {values_[at], values_[at + 1], values_[at + 2]};
}

ErrorSum MetricSums::of_output(Index c) const {
  const auto at = static_cast<std::size_t>(kPerOutput * c);
  return {values_[at], values_[at + 1], values_[at + 2], values_[at + 3], values_[at + 4], values_[at + 5]};
}

bool MetricSums::counts(Task task, ConstSpan target, Index target_channels) {
  if (task == Task::regression) return true;
  if (task == Task::binary) return std::ranges::any_of(target, [](float t) { return !(t < 0); });
  const auto wide = static_cast<std::size_t>(target_channels);
  for (std::size_t i = 0; i < target.size(); i += wide)
    if (label(target.subspan(i, wide)) >= 0) return true;
  return false;
}

double MetricSums::accuracy() const { return values_[0] > 0 ? values_[1] / values_[0] : kUndefined; }

double MetricSums::mean_over_classes(double (ClassCount::*metric)() const) const {
  double sum = 0;
  int classes = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = of_class(c);
    if (count.either() == 0) continue;
    sum += (count.*metric)();
    ++classes;
  }
  return classes > 0 ? sum / classes : kUndefined;
}

double MetricSums::mean_r2() const {
  double sum = 0;
  int outputs = 0;
  for (Index c = 0; c < channels_; ++c)
    if (const double r2 = of_output(c).r2(); !std::isnan(r2)) sum += r2, ++outputs;
  return outputs > 0 ? sum / outputs : kUndefined;
}

double MetricSums::value(Metric metric) const {
  switch (metric) {
    case Metric::accuracy: return accuracy();
    case Metric::iou: return mean_over_classes(&ClassCount::iou);
    case Metric::dice: return mean_over_classes(&ClassCount::dice);
    case Metric::r2: return mean_r2();
  }
  return kUndefined;
}

std::optional<Metric> metric_of(const TrainingConfig& training, const Shape& output) {
  if (training.metric || training.loss.task() == Task::regression) return training.metric;
  return output.axes > 0 ? Metric::dice : Metric::accuracy;
}

}  // namespace mrmf
