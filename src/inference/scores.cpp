#include "src/inference/scores.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mrmf {
namespace {

using Json = nlohmann::ordered_json;

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

}  // namespace

Scores::Scores(Task task, const Shape& output, Index target_channels)
    : task_(task),
      channels_(output.channels),
      target_channels_(target_channels),
      target_(static_cast<std::size_t>(product(output.spatial) * target_channels)),
      positions_(output.axes > 0),
      sums_(task, output, target_channels) {
  if (task == Task::classes && channels_ <= kMostPrinted)
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
  world.sum(sums_.values());
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
  return text + "\n" + classes_text() + (task_ == Task::classes ? "\n" + confusion_text() : "");
}

nlohmann::ordered_json Scores::json() const {
  if (task_ == Task::regression) return errors_json();
  Json json{{"loss", number(loss())}, {"accuracy", number(sums_.value(Metric::accuracy))}};
  if (task_ == Task::classes && channels_ > kFirst && labelled_ > 0)
    json[fmt::format("accuracy_of_first_{}", kFirst)] = in_first_ / labelled_;
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
  double mse = 0, mae = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ErrorSum sum = sums_.of_output(c);
    labels.push_back({{"label", c},
                      {"mse", number(sum.squares / sum.count)},
                      {"mae", number(sum.magnitudes / sum.count)},
                      {"r2", number(sum.r2())}});
    mse += sum.squares / sum.count / static_cast<double>(channels_);
    mae += sum.magnitudes / sum.count / static_cast<double>(channels_);
  }
  return {{"labels", labels}, {"mse", number(mse)}, {"mae", number(mae)}};
}

nlohmann::ordered_json Scores::classes_json() const {
  Json classes = Json::array();
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = sums_.of_class(c);
    classes.push_back({{task_ == Task::classes ? "class" : "output", c},
                       {"labels", static_cast<Index>(count.labelled)},
                       {"predictions", static_cast<Index>(count.predicted)},
                       {"iou", number(count.iou())},
                       {"dice", number(count.dice())}});
  }
  return {{task_ == Task::classes ? "classes" : "outputs", classes},
          {"iou", number(sums_.value(Metric::iou))},
          {"dice", number(sums_.value(Metric::dice))}};
}

std::string Scores::errors_text() const {
  std::string text = fmt::format("{:>6} {:>12} {:>12} {:>8}\n", "label", "MSE", "MAE", "R^2");
  double mse = 0, mae = 0;
  for (Index c = 0; c < channels_; ++c) {
    const ErrorSum sum = sums_.of_output(c);
    text += fmt::format("{:>6} {:>12.6g} {:>12.6g} {:>8}\n", c, sum.squares / sum.count, sum.magnitudes / sum.count,
                        score_text(sum.r2(), 4));
    mse += sum.squares / sum.count / static_cast<double>(channels_);
    mae += sum.magnitudes / sum.count / static_cast<double>(channels_);
  }
  return text + fmt::format("{:>6} {:>12.6g} {:>12.6g}\n", "mean", mse, mae);
}

std::string Scores::classes_text() const {
  std::string text = fmt::format("{:>6} {:>12} {:>12} {:>8} {:>8}\n", task_ == Task::classes ? "class" : "output",
                                 "labels", "predictions", "IoU", "Dice");
  for (Index c = 0; c < channels_; ++c) {
    const ClassCount count = sums_.of_class(c);
    text += fmt::format("{:>6} {:>12.0f} {:>12.0f} {:>8} {:>8}\n", c, count.labelled, count.predicted,
                        score_text(count.iou(), 4), score_text(count.dice(), 4));
  }
  return text + fmt::format("{:>6} {:>12} {:>12} {:>8} {:>8}\n", "mean", "", "",
                            score_text(sums_.value(Metric::iou), 4), score_text(sums_.value(Metric::dice), 4));
}

std::string Scores::confusion_text() const {
  if (channels_ > kMostPrinted)
    return fmt::format("the matrix of {} classes is left out; predict writes every class\n", channels_);
  std::string text = fmt::format("labels (rows) and predictions (columns)\n{:>6}", "");
  for (Index c = 0; c < channels_; ++c) text += fmt::format(" {:>9}", c);
  for (Index label = 0; label < channels_; ++label) {
    text += fmt::format("\n{:>6}", label);
    for (Index c = 0; c < channels_; ++c)
      text += fmt::format(" {:>9.0f}", confusion_[static_cast<std::size_t>(label * channels_ + c)]);
  }
  return text + "\n";
}

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

std::vector<std::uint16_t> predicted_classes(Index channels, ConstSpan y) {
  std::vector<std::uint16_t> classes(y.size() / static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < classes.size(); ++i)
    classes[i] = static_cast<std::uint16_t>(MetricSums::largest(piece(y, i, channels)));
  return classes;
}

}  // namespace mrmf
