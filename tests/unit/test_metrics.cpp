// Every score against its formula, written out plainly, on random cases: labels that are ignored, classes that do not
// occur, a single class, ties.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "src/config/metric.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void check_number(double found, double expected) {
  if (std::isnan(expected)) {
    CHECK(std::isnan(found));
  } else {
    CHECK(found == doctest::Approx(expected).epsilon(1e-9));
  }
}

double ratio(double a, double b) { return b > 0 ? a / b : kNone; }

/// Labels and predictions as true and false, one pair for each position that counts.
struct Truth {
  std::vector<bool> label, said;
  std::vector<float> score;
  double count(bool of_label, bool of_said) const {
    double n = 0;
    for (std::size_t i = 0; i < label.size(); ++i) n += label[i] == of_label && said[i] == of_said ? 1 : 0;
    return n;
  }
  double both() const { return count(true, true); }
  double labelled() const { return both() + count(true, false); }
  double predicted() const { return both() + count(false, true); }
  bool occurs() const { return labelled() + predicted() > 0; }
  double precision() const { return ratio(both(), predicted()); }
  double recall() const { return ratio(both(), labelled()); }
  double f1() const { return ratio(2 * both(), predicted() + labelled()); }
  double iou() const { return ratio(both(), predicted() + labelled() - both()); }
  double specificity() const { return ratio(count(false, false), count(false, false) + count(false, true)); }
  double auc() const {
    double pairs = 0, all = 0;
    for (std::size_t i = 0; i < label.size(); ++i)
      for (std::size_t j = 0; j < label.size(); ++j)
        if (label[i] && !label[j]) all += 1, pairs += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
    return ratio(pairs, all);
  }
};

double mean(const std::vector<Truth>& classes, double (Truth::*of)() const, std::size_t first = 0,
            bool as_zero = false) {
  double sum = 0, parts = 0;
  for (std::size_t c = first; c < classes.size(); ++c) {
    double part = (classes[c].*of)();
    if (as_zero && std::isnan(part) && classes[c].occurs()) part = 0;
    if (!std::isnan(part)) sum += part, parts += 1;
  }
  return ratio(sum, parts);
}

double weighted(const std::vector<Truth>& classes, double (Truth::*of)() const) {
  double sum = 0, labels = 0;
  for (const Truth& one : classes) {
    const double part = (one.*of)();
    labels += one.labelled(), sum += std::isnan(part) ? 0 : part * one.labelled();
  }
  return ratio(sum, labels);
}

void check_means(const MetricSums& sums, const std::vector<Truth>& classes, bool background) {
  const std::size_t first = background ? 1 : 0;
  const auto value = [&](MetricKind kind) { return sums.value({kind, -1}); };
  check_number(value(MetricKind::precision), mean(classes, &Truth::precision, 0, true));
  check_number(value(MetricKind::recall), mean(classes, &Truth::recall, 0, true));
  check_number(value(MetricKind::f1), mean(classes, &Truth::f1));
  check_number(value(MetricKind::precision_weighted), weighted(classes, &Truth::precision));
  check_number(value(MetricKind::recall_weighted), weighted(classes, &Truth::recall));
  check_number(value(MetricKind::f1_weighted), weighted(classes, &Truth::f1));
  check_number(value(MetricKind::iou), mean(classes, &Truth::iou, first));
  check_number(value(MetricKind::dice), mean(classes, &Truth::f1, first));
  check_number(value(MetricKind::iou_with_background), mean(classes, &Truth::iou));
  check_number(value(MetricKind::dice_with_background), mean(classes, &Truth::f1));
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto of = [&](MetricKind kind) { return sums.value({kind, static_cast<int>(c)}); };
    check_number(of(MetricKind::precision), classes[c].precision());
    check_number(of(MetricKind::recall), classes[c].recall());
    check_number(of(MetricKind::f1), classes[c].f1());
    check_number(of(MetricKind::iou), classes[c].iou());
    check_number(of(MetricKind::dice), classes[c].f1());
    check_number(of(MetricKind::auc), classes[c].auc());
  }
}

/// Outputs on a coarse grid, so that some are equal, and labels of some of the classes.
struct RandomCase {
  std::mt19937 random;
  Index classes, rows;
  std::vector<float> y, target;

  explicit RandomCase(unsigned seed) : random(seed) {
    classes = below(4) + 2;
    rows = below(40) + 1;
    for (Index i = 0; i < rows * classes; ++i) y.push_back(static_cast<float>(below(9) - 4) / 2);
  }
  Index below(int most) { return static_cast<Index>(random() % static_cast<unsigned>(most)); }
};

}  // namespace

TEST_CASE("metrics: 200 random cases of classes") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomCase random(seed);
    const Index used = seed % 5 == 0 ? 1 : random.below(static_cast<int>(random.classes)) + 1;
    for (Index i = 0; i < random.rows; ++i)
      random.target.push_back(
          seed % 3 == 0 && random.below(4) == 0 ? -1.F : static_cast<float>(random.below(static_cast<int>(used))));
    const bool background = seed % 2 == 0;
    MetricSums sums({.task = Task::classes,
                     .output = {random.rows, {1, 1, 1}, random.classes, 0},
                     .background = background,
                     .log_loss = true,
                     .ranked = true});
    // In two parts: sums add up.
    const auto half = static_cast<std::size_t>(random.rows / 2), k = static_cast<std::size_t>(random.classes);
    sums.add(std::span(random.y).first(half * k), std::span(random.target).first(half));
    sums.add(std::span(random.y).subspan(half * k), std::span(random.target).subspan(half));
    std::vector<Truth> classes(k);
    double known = 0, right = 0, loss = 0;
    for (std::size_t i = 0; i < random.target.size(); ++i) {
      if (random.target[i] < 0) continue;
      const auto label = static_cast<std::size_t>(random.target[i]);
      const std::vector<float> own(random.y.begin() + static_cast<long>(i * k),
                                   random.y.begin() + static_cast<long>((i + 1) * k));
      const std::vector<float> p = probabilities(Task::classes, random.classes, own);
      const auto said = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
      known += 1, right += said == label ? 1 : 0, loss -= std::log(double{p[label]});
      for (std::size_t c = 0; c < k; ++c) {
        classes[c].label.push_back(c == label), classes[c].said.push_back(c == said);
        classes[c].score.push_back(p[c]);
      }
    }
    check_number(sums.value(Metric::accuracy), ratio(right, known));
    check_number(sums.value({MetricKind::balanced_accuracy, -1}), mean(classes, &Truth::recall));
    const double log_loss = sums.value({MetricKind::log_loss, -1});
    if (known > 0) CHECK(log_loss == doctest::Approx(loss / known).epsilon(1e-6));  // p is float32
    check_number(sums.value({MetricKind::auc, -1}), k == 2 ? classes[1].auc() : mean(classes, &Truth::auc));
    check_means(sums, classes, background);
  }
}

TEST_CASE("metrics: 200 random cases of yes or no") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomCase random(seed + 1000);
    const bool one_side = seed % 7 == 0;
    for (Index i = 0; i < random.rows * random.classes; ++i)
      random.target.push_back(seed % 3 == 0 && random.below(4) == 0 ? -1.F
                              : one_side                            ? 1.F
                                                                    : static_cast<float>(random.below(2)));
    MetricSums sums({.task = Task::binary,
                     .output = {random.rows, {1, 1, 1}, random.classes, 0},
                     .target_channels = random.classes,
                     .log_loss = true,
                     .ranked = true});
    sums.add(random.y, random.target);
    std::vector<Truth> outputs(static_cast<std::size_t>(random.classes));
    const std::vector<float> p = probabilities(Task::binary, random.classes, random.y);
    double known = 0, right = 0, loss = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (random.target[i] < 0) continue;
      Truth& output = outputs[i % outputs.size()];
      output.label.push_back(random.target[i] > 0.5F), output.said.push_back(random.y[i] > 0);
      output.score.push_back(p[i]);
      known += 1, right += output.label.back() == output.said.back() ? 1 : 0;
      loss -= std::log(output.label.back() ? double{p[i]} : 1 - double{p[i]});
    }
    check_number(sums.value(Metric::accuracy), ratio(right, known));
    double balanced = 0, parts = 0;
    for (const Truth& output : outputs) {
      double sum = 0, sides = 0;
      for (const double side : {output.recall(), output.specificity()})
        if (!std::isnan(side)) sum += side, sides += 1;
      if (sides > 0) balanced += sum / sides, parts += 1;
    }
    check_number(sums.value({MetricKind::balanced_accuracy, -1}), ratio(balanced, parts));
    if (known > 0) CHECK(sums.value({MetricKind::log_loss, -1}) == doctest::Approx(loss / known).epsilon(1e-6));
    check_number(sums.value({MetricKind::auc, -1}), mean(outputs, &Truth::auc));
    check_means(sums, outputs, false);
  }
}

TEST_CASE("metrics: 200 random cases of numbers, in their own units") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomCase random(seed + 2000);
    const auto k = static_cast<std::size_t>(random.classes);
    for (Index i = 0; i < random.rows * random.classes; ++i)
      random.target.push_back(seed % 5 == 0 && i % random.classes == 0 ? 0.5F
                                                                       : static_cast<float>(random.below(9)) / 4);
    ChannelMap units;
    for (std::size_t c = 0; seed % 2 == 0 && c < k; ++c)
      units.scale.push_back(c % 2 == 0 ? 2.F : 0.001F), units.shift.push_back(-1);
    MetricSums sums({.task = Task::regression,
                     .output = {random.rows, {1, 1, 1}, random.classes, 0},
                     .target_channels = random.classes,
                     .units = units});
    sums.add(random.y, random.target);
    double r2 = 0, relative = 0, outputs = 0;
    for (std::size_t c = 0; c < k; ++c) {
      std::vector<double> label, said;
      const double scale = units.empty() ? 1 : units.scale[c], shift = units.empty() ? 0 : units.shift[c];
      for (std::size_t i = c; i < random.y.size(); i += k)
        label.push_back((random.target[i] - shift) / scale), said.push_back((random.y[i] - shift) / scale);
      const auto n = static_cast<double>(label.size());
      double middle = 0, spread = 0, squares = 0, magnitudes = 0;
      for (const double x : label) middle += x / n;
      for (std::size_t i = 0; i < label.size(); ++i) {
        spread += (label[i] - middle) * (label[i] - middle), squares += (said[i] - label[i]) * (said[i] - label[i]);
        magnitudes += std::abs(said[i] - label[i]);
      }
      const bool constant = std::ranges::all_of(label, [&](double x) { return x == label.front(); });
      const auto of = [&](MetricKind kind) { return sums.value({kind, static_cast<int>(c)}); };
      const auto close = [](double found, double expected) {
        CHECK(found == doctest::Approx(expected).epsilon(1e-5));  // units are float32
      };
      close(of(MetricKind::rmse), std::sqrt(squares / n));
      close(of(MetricKind::mae), magnitudes / n);
      if (constant) {
        for (const MetricKind kind : {MetricKind::r2, MetricKind::relative_rmse, MetricKind::relative_mae})
          CHECK(std::isnan(of(kind)));
        continue;
      }
      close(of(MetricKind::r2), 1 - squares / spread);
      close(of(MetricKind::relative_rmse), std::sqrt(squares / spread));
      close(of(MetricKind::relative_mae), magnitudes / n / std::sqrt(spread / n));
      r2 += 1 - squares / spread, relative += std::sqrt(squares / spread), outputs += 1;
    }
    if (outputs > 0) {
      CHECK(sums.value(Metric::r2) == doctest::Approx(r2 / outputs).epsilon(1e-5));
      CHECK(sums.value({MetricKind::relative_rmse, -1}) == doctest::Approx(relative / outputs).epsilon(1e-5));
    } else {
      CHECK(std::isnan(sums.value(Metric::r2)));
    }
  }
}

TEST_CASE("metrics: words, and which way they get better") {
  for (std::size_t i = 0; i < metric_kind_words().size(); ++i) {
    const Metric metric{static_cast<MetricKind>(i), -1};
    CHECK(metric_from(to_string(metric)) == metric);
    CHECK(fits(metric.kind, Task::regression) != fits(metric.kind, Task::classes));
  }
  CHECK(metric_from("dice:2") == Metric{MetricKind::dice, 2});
  CHECK(to_string(Metric{MetricKind::auc, 0}) == "auc:0");
  for (const char* bad : {"dice:", "dice:-1", "dice:1x", "accuracy:1", "log_loss:0", "dics", "", ":1"})
    CHECK(!metric_from(bad));
  const Metric falling{MetricKind::log_loss, -1};
  CHECK(MetricTarget{falling, 0.5}.reached(0.4));
  CHECK(!MetricTarget{falling, 0.5}.reached(0.6));
  CHECK(MetricTarget{Metric::dice, 0.5}.reached(0.6));
  BestEpoch best;
  CHECK(best.update(1, monitored(Monitor::metric, 0, rising(MetricValue{falling, 0.5}))));
  CHECK(best.update(2, monitored(Monitor::metric, 0, rising(MetricValue{falling, 0.4}))));
  CHECK(!best.update(3, monitored(Monitor::metric, 0, rising(MetricValue{falling, 0.45}))));
}

}  // namespace mrmf
