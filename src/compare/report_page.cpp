// The page of `mrmf report`: one HTML file that refers to nothing outside of itself. It has no script.
#include "src/compare/report_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "generated/version.hpp"
#include "src/compare/chart.hpp"
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

}  // namespace mrmf
