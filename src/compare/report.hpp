// The page of `mrmf report`: its parts, and the charts and pictures in it. Private to src/compare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/compare/compare.hpp"
#include "src/run/model_report.hpp"

namespace mrmf {

// Charts as SVG for an HTML page: lines, and bars that lie. They take the page's own text colour, so they suit light
// and dark pages and paper.

/// Text as HTML: no character of it is markup. Control characters become U+FFFD.
std::string html(const std::string& text);

/// The i-th of some colours that colour-blind readers tell apart, on light and on dark.
std::string chart_colour(std::size_t i);

struct ChartLine {
  std::vector<std::pair<double, double>> points;  ///< those that are not finite are left out
  std::string colour;
  bool minor = false;  ///< thin and dotted
  std::string title;   ///< what the reader sees who points at it
};

/// A ring around a point of a line, with what it marks.
struct ChartMark {
  double x = 0, y = 0;
  std::string colour, title;
};

struct LineChart {
  std::string title, x, y;  ///< titles of the chart and of its axes
  std::vector<ChartLine> lines;
  std::vector<ChartMark> marks{};
  bool linear = false;  ///< never a logarithmic axis, and no room for 0
};

/// The vertical axis is logarithmic where the points span more than a factor of three. "" without any points.
std::string svg(const LineChart& chart);

/// Points with a diagonal: what is predicted against what is true.
struct PointChart {
  std::string title, x, y;
  std::vector<std::pair<double, double>> points;
};

/// "" without any points.
std::string svg(const PointChart& chart);

/// Counts as a square of cells, shaded by their share of their row.
struct MatrixChart {
  std::string title, x, y;
  std::vector<std::string> names{};
  std::vector<std::vector<double>> counts{};  ///< [row][column]
};

std::string svg(const MatrixChart& chart);

struct BarPart {
  double value = 0;
  std::string colour;
  double opacity = 1;
  std::string title;
};

struct Bar {
  std::string label;  ///< above the bar
  std::vector<BarPart> parts;
};

struct BarChart {
  std::string title, x;
  std::vector<Bar> bars;
};

std::string svg(const BarChart& chart);

// Pictures inside of an HTML page.

/// The picture as the text of a PNG file within a page ("data:image/png;base64,..."), not compressed.
std::string png_address(const Picture& picture);

/// An <img> of it, with its title for those who cannot see it.
std::string html_picture(const Picture& picture);

// The sections of `mrmf report`'s page.

/// A table as HTML, in a box that scrolls by itself where the page is narrow. Cells are plain text. Those that begin as
/// a number does are set right.
std::string html_table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);

/// The text of `mrmf compare` as readers of a page know it: with a plus-minus sign.
std::string typeset(const std::string& text);

/// What tells a set from the others, in one line: "MRMF, 1 fusion, [2,2,2] [1,1,1], top dense".
std::string set_title(const RunSet& run_set);

/// The setting by which two losses are no numbers of one kind, such as "training.loss"; "": they are.
std::string different_losses(const RunSet& a, const RunSet& b);

// Each is the HTML of one section, without its heading.
std::string model_section(const std::vector<ModelReport>& models);
std::string summary_section(const std::vector<RunSet>& sets);
std::string plan_section(const std::vector<RunSet>& sets);
/// Empty where no run is a tournament.
std::string tournament_section(const std::vector<RunSet>& sets);
std::string curves_section(const std::vector<RunSet>& sets);
std::string time_section(const std::vector<RunSet>& sets);
std::string savings_section(const std::vector<RunSet>& sets, const CompareOptions& options);
std::string figures_section(const std::vector<RunSet>& sets);
std::string configuration_section(const std::vector<RunSet>& sets);
std::string machine_section(const std::vector<RunSet>& sets);

}  // namespace mrmf
