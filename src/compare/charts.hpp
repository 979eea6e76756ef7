// What is drawn into an HTML page. Private to src/compare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/run/model_report.hpp"

namespace mrmf {

// Charts as SVG for an HTML page: lines, and bars that lie. They take the page's own text colour, so they suit light
// and dark pages and paper. Private to src/compare.

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

// Pictures inside of an HTML page. Private to src/compare.

/// The picture as the text of a PNG file within a page ("data:image/png;base64,..."), not compressed.
std::string png_address(const Picture& picture);

/// An <img> of it, with its title for those who cannot see it.
std::string html_picture(const Picture& picture);

}  // namespace mrmf
