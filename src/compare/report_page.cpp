// The page of `mrmf report`: one HTML file that refers to nothing outside of itself. It has no script.
#include "src/compare/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "generated/version.hpp"
#include "src/compare/compare.hpp"

namespace mrmf {
namespace {

// Colours follow the reader's choice of light or dark; paper is always light. Charts take `currentColor`.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --ink: #1d2127; --paper: #ffffff; --soft: #f2f4f6; --line: #d3d8de; --dim: #5c6570; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e6ea; --paper: #16191d; --soft: #20252b; --line: #3a424c; --dim: #9aa4b0; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; font: 16px/1.5 system-ui, sans-serif;
  color: var(--ink); background: var(--paper); overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p, ul { max-width: 46rem; } li { margin: .25rem 0; }
.dim { color: var(--dim); } .small { font-size: .85em; }
.warning { border-left: 4px solid #c98a00; padding-left: .7rem; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .85em; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line);
  overflow-wrap: normal; white-space: nowrap; }
td.wide { white-space: normal; min-width: 14rem; }
thead th { background: var(--soft); } .number { text-align: right; }
pre { background: var(--soft); padding: .8rem; margin: .5rem 0; font-size: .8em; overflow-x: auto;
  white-space: pre-wrap; }
summary { cursor: pointer; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.chart { display: block; width: 100%; height: auto; fill: currentColor; font: 12px system-ui, sans-serif; }
.chart .title { font-size: 14px; font-weight: 600; } .chart .grid { stroke: currentColor; stroke-opacity: .16; }
.small-charts { grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr)); }
h4 { font-size: .95rem; margin: 1.1rem 0 .3rem; font-weight: 600; }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; }
.picture { margin: 0; font-size: .8em; } .picture img { display: block; width: min(14rem, 44vw); height: auto;
  image-rendering: pixelated; border: 1px solid var(--line); }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; font-size: .85em;
  max-width: none; }
.key span { display: inline-block; width: 1.4rem; height: .7rem; margin-right: .4rem; border: 1px solid transparent; }
@media print {
  :root { color-scheme: light; --ink: #000; --paper: #fff; --soft: #f2f4f6; --line: #bbb; --dim: #444; }
  body { max-width: none; padding: 0; font-size: 11px; }
  .charts { grid-template-columns: 1fr 1fr; } .picture img { width: 3.6cm; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } .scroll { overflow: visible; }
  table { font-size: .8em; } th, td { padding: .15rem .35rem; white-space: normal; }
  figure, svg, tr { break-inside: avoid; } h2, h3, h4 { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
)";

constexpr const char* kWords = R"(<dl>
<dt><b>resolution</b></dt><dd>By how many positions the data were averaged along each axis. [2,2] is a quarter of
the numbers of a plane; [1,1] are the data as they are.</dd>
<dt><b>coarse, dense</b></dt><dd>The two models of a stage. The coarse one learns on averaged data, where an epoch is
cheap. The dense one learns on finer data.</dd>
<dt><b>fusion</b></dt><dd>The dense model takes over the convolution layers that the coarse one has learned. The fused
model is trained further.</dd>
<dt><b>finetune, baseline</b></dt><dd>The last training at the last resolution: after the fusions, or without any.</dd>
<dt><b>epoch</b></dt><dd>The model has seen every training sample once.</dd>
<dt><b>best epoch</b></dt><dd>The epoch after which validation went best. Its model is the one that is used, and
that this page scores. A ring marks it in the curves.</dd>
<dt><b>precision, recall, F1</b></dt><dd>Of what was taken for a class, the share that is of it; of what is of the class,
the share that was found; and their harmonic mean. Dice is another name of F1.</dd>
<dt><b>AUC</b></dt><dd>The chance that of two samples, one of the class and one of another, the former gets the higher
probability of it. 0.5 is guessing.</dd>
<dt><b>RMSE, MAE</b></dt><dd>The root of the mean squared error, and the mean absolute error, in the label's units;
with "/dev." over the standard deviation of the label, which all labels can be compared by.</dd>
<dt><b>R²</b></dt><dd>The share of the labels' spread that is explained. 1 is perfect, 0 no better than their
mean.</dd>
<dt><b>loss</b></dt><dd>How far outputs are from labels, by the measure that training lowers. Lower is better. The
validation loss is of samples that are not trained on.</dd>
<dt><b>GFLOP</b></dt><dd>Billions of operations of convolutions and dense layers, validation included. They are the same
on every machine, idle or busy. Seconds are not.</dd>
</dl>
)";

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : "<section>\n<h2>" + html(title) + "</h2>\n" + body + "</section>\n";
}

bool is_number(const std::string& cell) {
  if (cell == "-") return true;
  const std::size_t first = cell.find_first_not_of("+-<>= ");
  return first != std::string::npos && std::isdigit(static_cast<unsigned char>(cell[first])) != 0;
}

}  // namespace

std::string typeset(const std::string& text) {
  const std::string as_printed = " +- ";
  std::string out = text;
  for (std::size_t at = 0; (at = out.find(as_printed, at)) != std::string::npos;)
    out.replace(at, as_printed.size(), " \u00B1 ");
  return out;
}

std::string html_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  constexpr std::size_t longest = 60;  // characters of a cell on one line
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool numbers = i > 0 && !rows.empty() && std::ranges::all_of(rows, [&](const auto& row) {
                           return i >= row.size() || row[i].empty() || is_number(row[i]);
                         });
    out += fmt::format("<th scope=\"col\"{}>{}</th>", numbers ? " class=\"number\"" : "", html(header[i]));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char* kind = row[i].size() > longest ? " class=\"wide\"" : is_number(row[i]) ? " class=\"number\"" : "";
      const std::string cell = html(typeset(row[i]));
      out += i == 0 ? "<th scope=\"row\">" + cell + "</th>" : fmt::format("<td{}>{}</td>", kind, cell);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::vector<std::string> described_runs(const std::vector<std::string>& folders) {
  constexpr std::size_t most = 8;
  std::vector<std::string> described;
  for (const RunSet& run_set : run_sets(folders))
    for (const Run& run : run_set.runs) {
      const bool more = &run != &run_set.runs.front() && run.fold == run_set.runs.front().fold;
      if (!more && described.size() < most) described.push_back(run.folder);
    }
  return described;
}

std::string report_page(const ReportOptions& options) {
  const std::vector<RunSet> sets = run_sets(options.runs);
  std::size_t runs = 0;
  for (const RunSet& run_set : sets) runs += run_set.runs.size();
  const std::string title = options.title.empty() ? "Training report" : options.title;
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         html(title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + html(title) + "</h1>\n" +
         fmt::format(
             "<p class=\"dim\">{} run{} of mrmf {}, a program that trains convolutional networks on large arrays. It "
             "can train on averaged-down data first, where an epoch is cheap, and hand what was learned to a model of "
             "finer data. Further down its <a href=\"#words\">words</a> are explained.</p>\n",
             runs, runs == 1 ? "" : "s", html(kVersion)) +
         section("In short", summary_section(sets)) + section("The model", model_section(options.models)) +
         section("What was run", plan_section(sets)) + section("How training went", curves_section(sets)) +
         section("The tournament", tournament_section(sets)) + section("Where the time went", time_section(sets)) +
         section("Costs and savings", savings_section(sets, options.compare)) +
         section("Final figures of every run", figures_section(sets)) + "<section id=\"words\">\n<h2>Words</h2>\n" +
         kWords + "</section>\n" + section("Machine and versions", machine_section(sets)) +
         section("Configuration", configuration_section(sets)) + "</body>\n</html>\n";
}

// What `mrmf report` says of the model that a run ends with: its scores, and what it makes of some samples.

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
  if (errors && list.size() > 1) means.erase("rmse"), means.erase("mae");  // the labels may have different units
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
