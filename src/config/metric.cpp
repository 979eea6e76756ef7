#include "src/config/metric.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace mrmf {
namespace {

bool of_one(MetricKind kind) {
  switch (kind) {
    case MetricKind::iou:
    case MetricKind::dice:
    case MetricKind::r2:
    case MetricKind::precision:
    case MetricKind::recall:
    case MetricKind::f1:
    case MetricKind::auc:
    case MetricKind::rmse:
    case MetricKind::mae:
    case MetricKind::relative_rmse:
    case MetricKind::relative_mae: return true;
    default: return false;
  }
}

bool of_numbers(MetricKind kind) {
  return kind == MetricKind::r2 || kind == MetricKind::rmse || kind == MetricKind::mae ||
         kind == MetricKind::relative_rmse || kind == MetricKind::relative_mae;
}

}  // namespace

const std::vector<std::string>& metric_kind_words() {
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

std::string to_string(const Metric& metric) {
  const std::string& word = metric_kind_words().at(static_cast<std::size_t>(metric.kind));
  return metric.of < 0 ? word : fmt::format("{}:{}", word, metric.of);
}

std::optional<Metric> metric_from(const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto& words = metric_kind_words();
  const auto found = std::ranges::find(words, text.substr(0, colon));
  if (found == words.end()) return {};
  Metric metric{static_cast<MetricKind>(found - words.begin()), -1};
  if (colon == text.size()) return metric;
  const char *const first = text.data() + colon + 1, *const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, metric.of);
  if (error != std::errc() || end != last || metric.of < 0 || !of_one(metric.kind)) return {};
  return metric;
}

std::string metric_choices(std::optional<Task> task) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < metric_kind_words().size(); ++i)
    if (!task || fits(static_cast<MetricKind>(i), *task)) words.push_back(metric_kind_words()[i]);
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} or {}", fmt::join(words, ", "), last);
}

bool fits(MetricKind kind, Task task) { return of_numbers(kind) == (task == Task::regression); }

bool falls(MetricKind kind) { return kind == MetricKind::log_loss || (of_numbers(kind) && kind != MetricKind::r2); }

bool up_to_one(MetricKind kind) { return !falls(kind); }

}  // namespace mrmf
