#include "src/training/metrics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/errors.hpp"

namespace mrmf {

std::vector<float> probabilities(Task task, Index channels, ConstSpan y) {
  std::vector<float> p(y.begin(), y.end());
  if (task != Task::classes) {
    for (float& value : p) value = static_cast<float>(1 / (1 + std::exp(-double{value})));
    return p;
  }
  for (auto at = p.begin(); at != p.end(); at += channels) {
    const float most = *std::max_element(at, at + channels);
    double sum = 0;
    for (auto c = at; c != at + channels; ++c) sum += std::exp(double{*c} - most);
    for (auto c = at; c != at + channels; ++c) *c = static_cast<float>(std::exp(double{*c} - most) / sum);
  }
  return p;
}

double log_loss(ConstSpan outputs, Index label) {
  const double most = *std::ranges::max_element(outputs);
  double sum = 0;
  for (const float output : outputs) sum += std::exp(output - most);
  return std::log(sum) - (outputs[static_cast<std::size_t>(label)] - most);
}

double log_loss(double output, double label) {
  return std::max(output, 0.0) - output * label + std::log1p(std::exp(-std::abs(output)));
}

namespace {

// Twice the number of pairs of a score and a smaller one of `sorted`, and once those of equal ones.
std::int64_t twice_above(const std::vector<float>& scores, const std::vector<float>& sorted) {
  std::int64_t pairs = 0;
  for (const float score : scores) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), score);
    pairs += (first - sorted.begin()) + (last - sorted.begin());
  }
  return pairs;
}

// All ranks' values, sorted, of which there are `all`, and this rank's begin at `first`.
std::vector<float> gathered(const std::vector<float>& own, std::int64_t first, std::int64_t all, Comm& team) {
  std::vector<std::int64_t> bits(static_cast<std::size_t>(all));
  for (std::size_t i = 0; i < own.size(); ++i)
    bits[static_cast<std::size_t>(first) + i] = std::bit_cast<std::int32_t>(own[i]);
  team.sum(std::span(bits));
  std::vector<float> values(bits.size());
  std::ranges::transform(bits, values.begin(),
                         [](std::int64_t b) { return std::bit_cast<float>(static_cast<std::int32_t>(b)); });
  std::ranges::sort(values);
  return values;
}

}  // namespace

void RankedScores::add(Index c, float score, bool is_of_class) {
  Sides& sides = classes_[static_cast<std::size_t>(c)];
  // NaN of a model that has diverged has no place in an order.
  const float ordered = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  (is_of_class ? sides.yes : sides.no).push_back(ordered);
}

void RankedScores::take(RankedScores& other) {
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    Sides &to = classes_[c], &from = other.classes_[c];
    to.yes.insert(to.yes.end(), from.yes.begin(), from.yes.end());
    to.no.insert(to.no.end(), from.no.begin(), from.no.end());
  }
  other.clear();
}

void RankedScores::clear() {
  for (Sides& sides : classes_) {
    sides.yes.clear();
    sides.no.clear();
    sides.summed = false;
  }
}

void RankedScores::sum(Comm& team) {
  const auto ranks = static_cast<std::size_t>(team.size()), rank = static_cast<std::size_t>(team.rank());
  std::vector<std::int64_t> counts(2 * ranks * classes_.size());  // [class][side][rank]
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    counts[2 * c * ranks + rank] = std::ssize(classes_[c].yes);
    counts[(2 * c + 1) * ranks + rank] = std::ssize(classes_[c].no);
  }
  team.sum(std::span(counts));
  std::vector<std::int64_t> pairs(classes_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    Sides& sides = classes_[c];
    const auto below = [&](std::size_t side, std::size_t end) {
      std::int64_t all = 0;
      for (std::size_t r = 0; r < end; ++r) all += counts[(2 * c + side) * ranks + r];
      return all;
    };
    sides.all_yes = below(0, ranks), sides.all_no = below(1, ranks);
    const std::size_t few = sides.all_yes <= sides.all_no ? 0 : 1;
    const std::vector<float> sorted =
        gathered(few == 0 ? sides.yes : sides.no, below(few, rank), below(few, ranks), team);
    // Where the yes are gathered, this rank's no are compared with them: pairs of a larger no, of which the rest is.
    pairs[c] = few == 1 ? twice_above(sides.yes, sorted)
                        : 2 * std::ssize(sides.no) * sides.all_yes - twice_above(sides.no, sorted);
  }
  team.sum(std::span(pairs));
  for (std::size_t c = 0; c < classes_.size(); ++c) classes_[c].pairs = pairs[c], classes_[c].summed = true;
}

double RankedScores::area(Index c) const {
  const Sides& sides = classes_[static_cast<std::size_t>(c)];
  const auto share = [](double pairs, double yes, double no) {
    return yes > 0 && no > 0 ? pairs / (2 * yes * no) : std::numeric_limits<double>::quiet_NaN();
  };
  if (sides.summed)
    return share(static_cast<double>(sides.pairs), static_cast<double>(sides.all_yes),
                 static_cast<double>(sides.all_no));
  std::vector<float> sorted = sides.no;
  std::ranges::sort(sorted);
  return share(static_cast<double>(twice_above(sides.yes, sorted)), static_cast<double>(sides.yes.size()),
               static_cast<double>(sides.no.size()));
}

namespace {

// The sums of classes: what counts, what is right and the logarithmic loss, then four numbers per class. Those of
// numbers: six per output.
constexpr Index kCommon = 3, kPerClass = 4, kPerOutput = 6;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// A background is class 0 of a position, unless the labels give that class another value or name.
bool has_background(const TrainingConfig& training, const Shape& output) {
  if (training.loss.task() != Task::classes || output.axes == 0) return false;
  return training.class_values.empty() || training.class_values.front() == "0" ||
         training.class_values.front() == "background";
}

bool with_background(MetricKind kind) {
  return kind == MetricKind::iou_with_background || kind == MetricKind::dice_with_background;
}

// Squared distances of the labels from their mean; not defined where float32 does not tell them apart.
double spread_of_labels(const ErrorSum& sum) {
  constexpr double same = 3e-15;  // share of the squares
  const double all = sum.label_squares + sum.label_squares_rest, spread = all - sum.labels * sum.labels / sum.count;
  return spread > same * all ? spread : kUndefined;
}

}  // namespace

double ErrorSum::rmse() const { return std::sqrt(mse()); }

double ErrorSum::deviation() const { return std::sqrt(spread_of_labels(*this) / count); }

double ErrorSum::r2() const { return 1.0 - squares / spread_of_labels(*this); }

// Every probability of every sample is kept for the areas under the ROC curves, which of so many classes few look at.
constexpr Index kMostRanked = 100;

ScoreSettings score_settings(const TrainingConfig& training, const Shape& output, Index target_channels,
                             const std::optional<Metric>& metric) {
  ScoreSettings settings{.task = training.loss.task(),
                         .output = output,
                         .target_channels = target_channels,
                         .background = has_background(training, output)};
  if (settings.task == Task::regression) return settings;
  settings.log_loss = !metric || metric->kind == MetricKind::log_loss;
  settings.ranked = metric ? metric->kind == MetricKind::auc : output.axes == 0 && output.channels <= kMostRanked;
  return settings;
}

MetricSums::MetricSums(ScoreSettings settings)
    : settings_(std::move(settings)),
      channels_(settings_.output.channels),
      values_(static_cast<std::size_t>(settings_.task == Task::regression ? kPerOutput * channels_
                                                                          : kCommon + kPerClass * channels_)),
      ranked_(settings_.ranked ? channels_ : 0) {}

void MetricSums::add(ConstSpan y, ConstSpan target) {
  MRMF_CHECK(std::ssize(y) / channels_ == std::ssize(target) / settings_.target_channels,
             "labels and outputs do not fit");
  switch (settings_.task) {
    case Task::regression: return settings_.units.empty() ? add_errors(y, target) : add_in_units(y, target);
    case Task::binary: return add_yes_or_no(y, target);
    case Task::classes: return add_classes(y, target);
  }
}

void MetricSums::clear() {
  std::ranges::fill(values_, 0.0);
  ranked_.clear();
}

void MetricSums::sum(Comm& team) {
  team.sum(values());
  if (!ranked_.empty()) ranked_.sum(team);
}

double* MetricSums::of(Index c) {
  return values_.data() + (settings_.task == Task::regression ? kPerOutput * c : kCommon + kPerClass * c);
}

void MetricSums::add_in_units(ConstSpan y, ConstSpan target) {
  std::vector<float> outputs(y.begin(), y.end()), labels(target.begin(), target.end());
  undo(settings_.units, 0, outputs);
  undo(settings_.units, 0, labels);
  add_errors(outputs, labels);
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
  const auto channels = static_cast<std::size_t>(channels_), wide = static_cast<std::size_t>(settings_.target_channels);
  const std::vector<float> p = settings_.ranked ? probabilities(Task::classes, channels_, y) : std::vector<float>{};
  for (std::size_t i = 0; i * channels < y.size(); ++i) {
    const Index labelled = label(target.subspan(i * wide, wide));
    if (labelled < 0) continue;
    const ConstSpan outputs = y.subspan(i * channels, channels);
    const Index predicted = largest(outputs);
    values_[0] += 1;
    values_[1] += predicted == labelled ? 1 : 0;
    if (settings_.log_loss) values_[2] += log_loss(outputs, labelled);
    of(predicted)[0] += predicted == labelled ? 1 : 0;
    of(predicted)[1] += 1;
    of(labelled)[2] += 1;
    for (Index c = 0; settings_.ranked && c < channels_; ++c)
      ranked_.add(c, p[i * channels + static_cast<std::size_t>(c)], c == labelled);
  }
}

// Logits above 0 are a yes, and shares above a half.
void MetricSums::add_yes_or_no(ConstSpan y, ConstSpan target) {
  const std::vector<float> p = settings_.ranked ? probabilities(Task::binary, channels_, y) : std::vector<float>{};
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (target[i] < 0) continue;
    const bool predicted = y[i] > 0, labelled = target[i] > 0.5F;
    const Index c = static_cast<Index>(i) % channels_;
    double* const sums = of(c);
    values_[0] += 1;
    values_[1] += predicted == labelled ? 1 : 0;
    if (settings_.log_loss) values_[2] += log_loss(double{y[i]}, double{target[i]});
    sums[0] += predicted && labelled ? 1 : 0;
    sums[1] += predicted ? 1 : 0;
    sums[2] += labelled ? 1 : 0;
    sums[3] += 1;
    if (settings_.ranked) ranked_.add(c, p[i], labelled);
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
  const double known = settings_.task == Task::classes ? values_[0] : values_[at + 3];
  return {values_[at], values_[at + 1], values_[at + 2], known};
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

double MetricSums::area(Index c) const { return ranked_.empty() ? kUndefined : ranked_.area(c); }

double MetricSums::of_one(const Metric& metric, Index c) const {
  if (settings_.task == Task::regression) {
    const ErrorSum sum = of_output(c);
    switch (metric.kind) {
      case MetricKind::r2: return sum.r2();
      case MetricKind::rmse: return sum.rmse();
      case MetricKind::mae: return sum.mae();
      case MetricKind::relative_rmse: return sum.relative_rmse();
      case MetricKind::relative_mae: return sum.relative_mae();
      default: return kUndefined;
    }
  }
  const ClassCount count = of_class(c);
  switch (metric.kind) {
    case MetricKind::precision:
    case MetricKind::precision_weighted: return count.precision();
    case MetricKind::recall:
    case MetricKind::recall_weighted: return count.recall();
    case MetricKind::f1:
    case MetricKind::f1_weighted: return count.f1();
    case MetricKind::auc: return area(c);
    case MetricKind::iou:
    case MetricKind::iou_with_background: return count.iou();
    case MetricKind::dice:
    case MetricKind::dice_with_background: return count.dice();
    default: return kUndefined;
  }
}

// Precision without a prediction, and recall without a label, count as 0 in means over classes that occur.
double MetricSums::mean(const Metric& metric) const {
  const bool overlap =
      metric.kind == MetricKind::iou || metric.kind == MetricKind::dice || with_background(metric.kind);
  const bool counted = metric.kind == MetricKind::precision || metric.kind == MetricKind::recall;
  const Index first = overlap && settings_.background && !with_background(metric.kind) ? 1 : 0;
  double sum = 0;
  int parts = 0;
  for (Index c = first; c < channels_; ++c) {
    double part = of_one(metric, c);
    if (counted && std::isnan(part) && of_class(c).either() > 0) part = 0;
    if (!std::isnan(part)) sum += part, ++parts;
  }
  return parts > 0 ? sum / parts : kUndefined;
}

double MetricSums::weighted(MetricKind kind) const {
  double sum = 0, labels = 0;
  for (Index c = 0; c < channels_; ++c) {
    const double weight = of_class(c).labelled, part = of_one({kind, -1}, c);
    labels += weight;
    if (!std::isnan(part)) sum += weight * part;
  }
  return labels > 0 ? sum / labels : kUndefined;
}

// Where labels are yes or no, the two are classes.
double MetricSums::balanced_accuracy() const {
  double sum = 0;
  int parts = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = of_class(c);
    double part = count.recall();
    if (settings_.task == Task::binary) {
      const double other = count.specificity();
      part = std::isnan(part) ? other : std::isnan(other) ? part : (part + other) / 2;
    }
    if (!std::isnan(part)) sum += part, ++parts;
  }
  return parts > 0 ? sum / parts : kUndefined;
}

double MetricSums::value(const Metric& metric) const {
  if (metric.of >= 0) return metric.of < channels_ ? of_one(metric, metric.of) : kUndefined;
  switch (metric.kind) {
    case MetricKind::accuracy: return accuracy();
    case MetricKind::balanced_accuracy: return balanced_accuracy();
    case MetricKind::log_loss: return values_[0] > 0 && settings_.log_loss ? values_[2] / values_[0] : kUndefined;
    case MetricKind::precision_weighted:
    case MetricKind::recall_weighted:
    case MetricKind::f1_weighted: return weighted(metric.kind);
    // Where there are two classes, the first's area is the second's, but for how their shares are rounded.
    case MetricKind::auc: return settings_.task == Task::classes && channels_ == 2 ? area(1) : mean(metric);
    default: return mean(metric);
  }
}

std::optional<Metric> metric_of(const TrainingConfig& training, const Shape& output) {
  if (training.metric || training.loss.task() == Task::regression) return training.metric;
  return output.axes > 0 ? Metric::dice : Metric::accuracy;
}

}  // namespace mrmf
