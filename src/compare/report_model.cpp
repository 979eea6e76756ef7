// What `mrmf report` says of the model that a run ends with: its scores, and what it makes of some samples.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "src/compare/chart.hpp"
#include "src/compare/picture.hpp"
#include "src/compare/report_page.hpp"

namespace mrmf {
namespace {

using Cells = std::vector<std::string>;
using Json = nlohmann::ordered_json;

/// A column of a table of scores: the key in the scores, its heading, and digits; below 0: as many as it takes.
struct ScoreColumn {
  const char* key;
  const char* heading;
  int digits = 4;
};

const std::vector<ScoreColumn> kClassColumns{{"labels", "labels", 0},
                                             {"predictions", "predictions", 0},
                                             {"precision", "precision"},
                                             {"recall", "recall"},
                                             {"f1", "F1"},
                                             {"auc", "AUC"},
                                             {"iou", "IoU"},
                                             {"dice", "Dice"}};
const std::vector<ScoreColumn> kErrorColumns{
    {"deviation", "deviation", -1}, {"rmse", "RMSE", -1},         {"mae", "MAE", -1},
    {"relative_rmse", "RMSE/dev."}, {"relative_mae", "MAE/dev."}, {"r2", "R\u00B2"}};

std::string cell(const Json& json, const std::string& key, int digits) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (!found->is_number()) return "-";
  const double value = found->get<double>();
  return digits < 0 ? fmt::format("{:.5g}", value) : fmt::format("{:.{}f}", value, digits);
}

std::string name_of(const Json& one, const char* number) {
  const auto name = one.find("name");
  return name != one.end() ? name->get<std::string>() : std::to_string(one.value(number, 0));
}

Cells row(const std::string& name, const Json& json, const std::vector<ScoreColumn>& columns,
          const std::string& suffix = "") {
  Cells cells{name};
  for (const ScoreColumn& column : columns) cells.push_back(cell(json, column.key + suffix, column.digits));
  return cells;
}

std::string score_table(const Json& scores) {
  const bool errors = scores.contains("labels");
  const char* const kind = errors ? "label" : scores.contains("classes") ? "class" : "output";
  const Json& list = scores.at(errors ? "labels" : scores.contains("classes") ? "classes" : "outputs");
  std::vector<ScoreColumn> columns = errors ? kErrorColumns : kClassColumns;
  if (!list.empty())  // areas of positions are measured where they are asked for
    std::erase_if(columns, [&](const ScoreColumn& column) { return !list.front().contains(column.key); });
  Cells header{kind};
  for (const ScoreColumn& column : columns) header.emplace_back(column.heading);
  std::vector<Cells> rows;
  for (const Json& one : list) rows.push_back(row(name_of(one, kind), one, columns));
  Json means = scores;
  means.erase("labels");
  if (errors && list.size() > 1) means.erase("rmse"), means.erase("mae");  // of different units
  rows.push_back(row("mean", means, columns));
  if (!errors) rows.push_back(row("weighted mean", means, columns, "_weighted"));
  return html_table(header, rows);
}

std::string headline(const Json& scores) {
  Cells parts;
  for (const auto& [key, words] : {std::pair("loss", "loss"), std::pair("accuracy", "accuracy"),
                                   std::pair("balanced_accuracy", "balanced accuracy"),
                                   std::pair("log_loss", "log loss"), std::pair("r2", "mean R\u00B2")})
    if (const std::string text = cell(scores, key, 4); !text.empty())
      parts.push_back(fmt::format("{} {}", words, text));
  std::string out = "<p>" + html(fmt::format("{}", fmt::join(parts, ", "))) + ".</p>\n";
  if (scores.contains("dice_with_background"))
    out += "<p class=\"small dim\">The means of IoU and Dice leave out the first class" +
           (scores.at("classes").front().contains("name")
                ? ", " + html(scores.at("classes").front().at("name").get<std::string>()) + ", as"
                : std::string(",")) +
           " the background; with it they are " + cell(scores, "iou_with_background", 4) + " and " +
           cell(scores, "dice_with_background", 4) + ".</p>\n";
  return out;
}

std::string class_name(const ModelReport& model, std::size_t c) {
  return c < model.names.size() ? model.names[c] : std::to_string(c);
}

// Rows are true classes; shades are shares of a row, so that a rare class is seen as well as a frequent one.
std::string confusion_chart(const ModelReport& model) {
  const auto confusion = model.scores.find("confusion");
  if (confusion == model.scores.end()) return "";
  MatrixChart chart{.title = "how often each class was taken for each", .x = "predicted", .y = "true"};
  for (std::size_t c = 0; c < confusion->size(); ++c) {
    chart.names.push_back(class_name(model, c));
    chart.counts.push_back((*confusion)[c].get<std::vector<double>>());
  }
  return svg(chart);
}

std::string points_charts(const ModelReport& model) {
  std::string out;
  for (const OutputPoints& output : model.outputs)
    out += svg(PointChart{.title = output.name, .x = "true", .y = "predicted", .points = output.points});
  return out;
}

std::string sample_rows(const ModelReport& model) {
  std::string out;
  if (!model.key.empty()) out += "<ul class=\"key\">\n";
  for (const ClassColour& one : model.key)
    out += "<li><span style=\"background: " + one.colour + "\"></span>" + html(one.name) + "</li>\n";
  if (!model.key.empty()) out += "</ul>\n";
  for (const SampleReport& sample : model.shown) {
    out += "<h4>" + html(sample.title) + "</h4>\n";
    if (!sample.pictures.empty()) {
      out += "<div class=\"pictures\">\n";
      for (const Picture& picture : sample.pictures) out += html_picture(picture);
      out += "</div>\n";
    }
    LineChart chart{.title = sample.title, .x = "position", .y = "value", .lines = {}};
    for (std::size_t i = 0; i < sample.curves.size(); ++i) {
      ChartLine line{
          .points = {}, .colour = chart_colour(1 + i / 2), .minor = i % 2 == 0, .title = sample.curves[i].title};
      line.points = sample.curves[i].points;
      chart.lines.push_back(std::move(line));
    }
    chart.linear = true;
    out += svg(chart);
  }
  if (!out.empty() && !model.shown.front().curves.empty())
    out += "<p class=\"small dim\">Dotted: true. Solid: predicted.</p>\n";
  return out;
}

}  // namespace

std::string model_section(const std::vector<ModelReport>& models) {
  std::string out;
  for (const ModelReport& model : models) {
    out += "<h3>" + html(model.run) + "</h3>\n";
    if (!model.problem.empty()) {
      out += "<p class=\"dim\">Its model was not run for this page: " + html(model.problem) + ".</p>\n";
      continue;
    }
    if (!model.model.empty()) out += "<p>" + html(model.model) + ".</p>\n";
    out += "<p>Scores of its " + html(model.samples) + ", in the labels' own units; \"-\" is not defined. <code>" +
           html(model.command) + "</code> prints the same.</p>\n" + headline(model.scores) + score_table(model.scores);
    const std::string charts = confusion_chart(model) + points_charts(model);
    if (!charts.empty()) out += "<div class=\"charts small-charts\">\n" + charts + "</div>\n";
    if (!model.shown.empty()) out += sample_rows(model);
  }
  return out;
}

}  // namespace mrmf
