#include "src/inference/evaluate_and_predict.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "src/data/classes.hpp"
#include "src/data/data.hpp"

namespace mrmf {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMean = -1;

// "0.0123", "-"
std::string general(double value) { return std::isnan(value) ? "-" : fmt::format("{:.6g}", value); }

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

constexpr Index kFirst = 5;         // largest outputs among which the label may be
constexpr Index kMostPrinted = 20;  // classes of a confusion matrix that fits a screen

ConstSpan piece(ConstSpan values, std::size_t i, Index width) {
  return values.subspan(i * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
}

// How many outputs are larger than that of the label.
Index larger(ConstSpan y, Index label) {
  const float own = y[static_cast<std::size_t>(label)];
  return std::ranges::count_if(y, [&](float value) { return value > own; });
}

/// A score of every class or output, and its weighted mean, where there is one.
struct Column {
  MetricKind kind;
  std::optional<MetricKind> weighted{};
};

const std::vector<Column>& class_columns() {
  static const std::vector<Column> columns{{MetricKind::precision, MetricKind::precision_weighted},
                                           {MetricKind::recall, MetricKind::recall_weighted},
                                           {MetricKind::f1, MetricKind::f1_weighted},
                                           {MetricKind::auc},
                                           {MetricKind::iou},
                                           {MetricKind::dice}};
  return columns;
}

const std::vector<Column>& error_columns() {
  static const std::vector<Column> columns{
      {MetricKind::rmse}, {MetricKind::mae}, {MetricKind::relative_rmse}, {MetricKind::relative_mae}, {MetricKind::r2}};
  return columns;
}

std::string key_of(MetricKind kind) { return to_string(Metric{kind, -1}); }

}  // namespace

Scores::Scores(Task task, const Shape& output, Index target_channels)
    : Scores(ScoreSettings{
          .task = task, .output = output, .target_channels = target_channels, .log_loss = true, .ranked = true}) {}

Scores::Scores(const ScoreSettings& settings, std::vector<std::string> names)
    : task_(settings.task),
      names_(std::move(names)),
      channels_(settings.output.channels),
      target_channels_(settings.target_channels),
      target_(static_cast<std::size_t>(product(settings.output.spatial) * target_channels_)),
      positions_(settings.output.axes > 0),
      sums_(settings) {
  if (task_ == Task::classes && channels_ <= kMostPrinted)
    confusion_.resize(static_cast<std::size_t>(channels_ * channels_));
}

void Scores::add(ConstSpan y, ConstSpan target, double loss) {
  sums_.add(y, target);
  loss_ += loss;
  for (std::size_t at = 0; at < target.size(); at += target_)
    labelled_samples_ += MetricSums::counts(task_, target.subspan(at, target_), target_channels_) ? 1 : 0;
  if (task_ != Task::classes) return;
  for (std::size_t i = 0; i * static_cast<std::size_t>(channels_) < y.size(); ++i) {
    const ConstSpan outputs = piece(y, i, channels_);
    const Index label = MetricSums::label(piece(target, i, target_channels_));
    if (label < 0) continue;
    if (!confusion_.empty())
      confusion_[static_cast<std::size_t>(label * channels_ + MetricSums::largest(outputs))] += 1;
    labelled_ += 1;
    in_first_ += larger(outputs, label) < kFirst ? 1 : 0;
  }
}

void Scores::sum(Comm& world) {
  sums_.sum(world);
  world.sum(std::span(confusion_));
  loss_ = world.sum(loss_);
  labelled_samples_ = world.sum(labelled_samples_);
  in_first_ = world.sum(in_first_);
  labelled_ = world.sum(labelled_);
}

double Scores::loss() const { return labelled_samples_ > 0 ? loss_ / labelled_samples_ : kNoScore; }

std::string Scores::text() const {
  if (task_ == Task::regression) return errors_text();
  const std::string of = positions_ ? "positions" : "samples";
  std::string text = fmt::format("loss {}\naccuracy {} of the {} with a label\n", score_text(loss(), 6),
                                 score_text(sums_.value(Metric::accuracy), 6), of);
  if (task_ == Task::classes && channels_ > kFirst && labelled_ > 0)
    text += fmt::format("accuracy {:.6f} of the first {}\n", in_first_ / labelled_, kFirst);
  text += fmt::format("balanced accuracy {}\nlog loss {}\n", score_text(value(MetricKind::balanced_accuracy), 6),
                      score_text(value(MetricKind::log_loss), 6));
  return text + "\n" + classes_text() + (task_ == Task::classes ? "\n" + confusion_text() : "");
}

nlohmann::ordered_json Scores::json() const {
  if (task_ == Task::regression) return errors_json();
  Json json{{"loss", number(loss())}, {"accuracy", number(sums_.value(Metric::accuracy))}};
  if (task_ == Task::classes && channels_ > kFirst && labelled_ > 0)
    json[fmt::format("accuracy_of_first_{}", kFirst)] = in_first_ / labelled_;
  for (const MetricKind kind : {MetricKind::balanced_accuracy, MetricKind::log_loss})
    json[key_of(kind)] = number(value(kind));
  json.update(classes_json());
  if (confusion_.empty()) return json;
  json["confusion"] = Json::array();  // [label][prediction]
  for (Index label = 0; label < channels_; ++label) {
    const auto row = confusion_.begin() + label * channels_;
    json["confusion"].push_back(std::vector<Index>(row, row + channels_));
  }
  return json;
}

nlohmann::ordered_json Scores::errors_json() const {
  Json labels = Json::array();
  double mse = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ErrorSum sum = sums_.of_output(c);
    Json label{{"label", c}};
    if (!names_.empty()) label["name"] = name(c);
    label.update({{"mse", number(sum.mse())}, {"deviation", number(sum.deviation())}});
    for (const Column& column : error_columns()) label[key_of(column.kind)] = number(value(column.kind, c));
    labels.push_back(label);
    mse += sum.mse() / static_cast<double>(channels_);
  }
  Json json{{"labels", labels}, {"mse", number(mse)}};
  for (const Column& column : error_columns()) json[key_of(column.kind)] = number(value(column.kind));
  return json;
}

nlohmann::ordered_json Scores::classes_json() const {
  Json classes = Json::array();
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = sums_.of_class(c);
    Json one{{task_ == Task::classes ? "class" : "output", c}};
    if (!names_.empty()) one["name"] = name(c);
    one["labels"] = static_cast<Index>(count.labelled);
    one["predictions"] = static_cast<Index>(count.predicted);
    for (const Column& column : class_columns())
      if (measured(column.kind)) one[key_of(column.kind)] = number(value(column.kind, c));
    classes.push_back(one);
  }
  Json json{{task_ == Task::classes ? "classes" : "outputs", classes}};
  for (const Column& column : class_columns()) {
    if (measured(column.kind)) json[key_of(column.kind)] = number(value(column.kind));
    if (column.weighted) json[key_of(*column.weighted)] = number(value(*column.weighted));
  }
  if (sums_.settings().background)
    for (const MetricKind kind : {MetricKind::iou_with_background, MetricKind::dice_with_background})
      json[key_of(kind)] = number(value(kind));
  return json;
}

std::string Scores::errors_text() const {
  const int wide = widest();
  std::string text =
      relative_text() + fmt::format("\n{:>{}} {:>12} {:>12} {:>8}\n", "label", wide, "MSE", "MAE", "R^2");
  double mse = 0, mae = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ErrorSum sum = sums_.of_output(c);
    text +=
        fmt::format("{:>{}} {:>12.6g} {:>12.6g} {:>8}\n", name(c), wide, sum.mse(), sum.mae(), score_text(sum.r2(), 4));
    mse += sum.mse() / static_cast<double>(channels_);
    mae += sum.mae() / static_cast<double>(channels_);
  }
  const bool alike = labels_are_alike();
  return text + fmt::format("{:>{}} {:>12} {:>12} {:>8}\n", "mean", wide, alike ? general(mse) : "-",
                            alike ? general(mae) : "-", score_text(value(MetricKind::r2), 4));
}

// A mean of errors in units says something where no label's units drown the others'.
bool Scores::labels_are_alike() const {
  constexpr double kApart = 10;
  double least = 0, most = 0;
  for (Index c = 0; c < channels_; ++c) {
    const double deviation = sums_.of_output(c).deviation();
    if (std::isnan(deviation)) continue;
    least = least == 0 ? deviation : std::min(least, deviation);
    most = std::max(most, deviation);
  }
  return most <= kApart * least;
}

// Errors of labels of different sizes have a mean only relative to each label's deviation.
std::string Scores::relative_text() const {
  const int wide = widest();
  std::string text = "errors in the labels' units, and relative to the deviation of each label\n" +
                     fmt::format("{:>{}} {:>12} {:>12} {:>12} {:>10} {:>10}\n", "label", wide, "deviation", "RMSE",
                                 "MAE", "RMSE/dev.", "MAE/dev.");
  for (Index c = 0; c < channels_; ++c) {
    const ErrorSum sum = sums_.of_output(c);
    text += fmt::format("{:>{}} {:>12} {:>12.6g} {:>12.6g} {:>10} {:>10}\n", name(c), wide, general(sum.deviation()),
                        sum.rmse(), sum.mae(), score_text(sum.relative_rmse(), 4), score_text(sum.relative_mae(), 4));
  }
  return text + fmt::format("{:>{}} {:>12} {:>12} {:>12} {:>10} {:>10}\n", "all", wide, "", "", "",
                            score_text(value(MetricKind::relative_rmse), 4),
                            score_text(value(MetricKind::relative_mae), 4));
}

std::string Scores::classes_text() const {
  const int wide = widest();
  std::string text = fmt::format("{:>{}} {:>12} {:>12} {:>8} {:>8}\n", task_ == Task::classes ? "class" : "output",
                                 wide, "labels", "predictions", "IoU", "Dice");
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = sums_.of_class(c);
    text += fmt::format("{:>{}} {:>12.0f} {:>12.0f} {:>8} {:>8}\n", name(c), wide, count.labelled, count.predicted,
                        score_text(count.iou(), 4), score_text(count.dice(), 4));
  }
  text += fmt::format("{:>{}} {:>12} {:>12} {:>8} {:>8}\n", "mean", wide, "", "", score_text(value(MetricKind::iou), 4),
                      score_text(value(MetricKind::dice), 4));
  if (sums_.settings().background)
    text += fmt::format("the means leave out class {} as the background; with it they are {} and {}\n", name(0),
                        score_text(value(MetricKind::iou_with_background), 4),
                        score_text(value(MetricKind::dice_with_background), 4));
  return text + "\n" + found_text();
}

// How much of each class is found, and how sure what is found is of it.
std::string Scores::found_text() const {
  const int wide = std::max(8, widest());  // "weighted"
  const bool areas = measured(MetricKind::auc);
  std::string text = fmt::format("{:>{}} {:>9} {:>9} {:>8}{}\n", task_ == Task::classes ? "class" : "output", wide,
                                 "precision", "recall", "F1", areas ? "      AUC" : "");
  const auto row = [&](const std::string& of, double precision, double recall, double f1, const std::string& auc) {
    text += fmt::format("{:>{}} {:>9} {:>9} {:>8}", of, wide, score_text(precision, 4), score_text(recall, 4),
                        score_text(f1, 4)) +
            (areas && !auc.empty() ? fmt::format(" {:>8}", auc) : "") + "\n";
  };
  const auto all = [&](Index c) {
    row(c < 0 ? "mean" : name(c), value(MetricKind::precision, c), value(MetricKind::recall, c),
        value(MetricKind::f1, c), score_text(value(MetricKind::auc, c), 4));
  };
  for (Index c = 0; c < channels_; ++c) all(c);
  all(kMean);
  row("weighted", value(MetricKind::precision_weighted), value(MetricKind::recall_weighted),
      value(MetricKind::f1_weighted), "");
  return text;
}

std::string Scores::name(Index c) const {
  return names_.empty() ? std::to_string(c) : names_[static_cast<std::size_t>(c)];
}

int Scores::widest() const {
  std::size_t most = 6;
  for (const std::string& name : names_) most = std::max(most, name.size());
  return static_cast<int>(std::min<std::size_t>(most, 40));
}

// Areas under ROC curves keep every probability: not of all outputs.
bool Scores::measured(MetricKind kind) const { return kind != MetricKind::auc || sums_.settings().ranked; }

double Scores::value(MetricKind kind, Index c) const { return sums_.value({kind, static_cast<int>(c)}); }

std::string Scores::confusion_text() const {
  if (channels_ > kMostPrinted)
    return fmt::format("the matrix of {} classes is left out; predict writes every class\n", channels_);
  constexpr int kNumber = 9;
  std::string text = fmt::format("labels (rows) and predictions (columns)\n{:>{}}", "", widest());
  const int wide = std::max(kNumber, widest());
  for (Index c = 0; c < channels_; ++c) text += fmt::format(" {:>{}}", name(c), wide);
  for (Index label = 0; label < channels_; ++label) {
    text += fmt::format("\n{:>{}}", name(label), widest());
    for (Index c = 0; c < channels_; ++c)
      text += fmt::format(" {:>{}.0f}", confusion_[static_cast<std::size_t>(label * channels_ + c)], wide);
  }
  return text + "\n";
}

std::vector<std::uint16_t> predicted_classes(Index channels, ConstSpan y) {
  std::vector<std::uint16_t> classes(y.size() / static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<std::uint16_t>(MetricSums::largest(piece(y, i, channels)));
  return classes;
}

ScoreSettings evaluation_settings(const Trained& t) {
  ScoreSettings settings = score_settings(t.config.training, t.output(), t.target_channels(), {});
  settings.units = t.models.front().labels;
  // For positions, all scores are kept in memory: only where they were asked for.
  const auto metric = metric_of(t.config.training, t.output());
  settings.ranked = settings.ranked || (metric && metric->kind == MetricKind::auc);
  return settings;
}

Evaluation evaluate(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, LabelUse::needed, world);
  Scores scores(evaluation_settings(t), names_of(t.config));
  const auto add = [&](const BatchResult& batch) { scores.add(batch.outputs, batch.labels, batch.loss); };
  collective_try(world, [&] { for_each_batch(t, {}, add); });  // no rank waits for another inside
  scores.sum(world);
  std::string warning;
  if (scores.labelled() == 0)
    warning = no_label_text(t.spec, t.config.training, "evaluated") + ": there is nothing to score";
  return {std::move(scores), std::move(t.spec), t.shape.samples, std::move(warning)};
}

}  // namespace mrmf
