#include "src/compare/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace mrmf {
namespace {

constexpr double kWidth = 560, kHeight = 320, kLeft = 64, kRight = 16, kTop = 34, kBottom = 46;

// Round numbers that cut [low, high] into some five pieces.
std::vector<double> round_ticks(double low, double high) {
  const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step && ticks.size() < 12; ++k)
    ticks.push_back(k * step + 0.0);  // the sum is never -0
  return ticks;
}

std::vector<double> logarithmic_ticks(double low, double high) {
  std::vector<double> ticks, fewer;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * power;
      if (tick < low * 0.999 || tick > high * 1.001) continue;
      ticks.push_back(tick);
      if (factor == 1) fewer.push_back(tick);
    }
  return ticks.size() > 9 ? fewer : ticks;
}

/// Numbers on an axis, and where they lie on the page.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;

  double place(double value) const {
    const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
  std::vector<double> ticks() const { return logarithmic ? logarithmic_ticks(low, high) : round_ticks(low, high); }
};

struct Extremes {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double value) { least = std::min(least, value), most = std::max(most, value); }
};

// With some room around the numbers, and never empty.
Axis y_axis(const Extremes& y) {
  Axis axis{.low = y.least, .high = y.most, .from = kHeight - kBottom, .to = kTop};
  axis.logarithmic = y.least > 0 && y.most > 3 * y.least;
  if (axis.logarithmic) {
    const double room = std::pow(y.most / y.least, 0.05);
    axis.low /= room, axis.high *= room;
  } else {
    const double room = y.most > y.least ? 0.06 * (y.most - y.least) : std::max(0.1 * std::abs(y.most), 1e-6);
    axis.low -= room, axis.high += room;
  }
  return axis;
}

std::string text(double x, double y, const char* anchor, const std::string& words, const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     html(words));
}

std::string grid_line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", x1, y1, x2,
                     y2);
}

std::string begin(double width, double height, const std::string& title) {
  return fmt::format("<svg class=\"chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width,
                     height, html(title)) +
         text(0, 16, "start", title, " class=\"title\"");
}

std::string draw_axes(const LineChart& chart, const Axis& x, const Axis& y) {
  std::string out;
  for (const double tick : y.ticks()) {
    const double at = y.place(tick);
    out += grid_line(x.from, at, x.to, at) + text(x.from - 6, at + 4, "end", fmt::format("{:.4g}", tick));
  }
  for (const double tick : x.ticks()) {
    const double at = x.place(tick);
    out += grid_line(at, y.from, at, y.to) + text(at, y.from + 18, "middle", fmt::format("{:.6g}", tick));
  }
  out += text((x.from + x.to) / 2, kHeight - 8, "middle", chart.x);
  const double middle = (y.from + y.to) / 2;
  return out + text(14, middle, "middle", chart.y, fmt::format(" transform=\"rotate(-90 14 {:.1f})\"", middle).c_str());
}

std::string draw(const ChartLine& line, const Axis& x, const Axis& y) {
  std::string points;
  double last_x = 0, last_y = 0;
  for (const auto& [px, py] : line.points) {
    if (!std::isfinite(px) || !std::isfinite(py)) continue;
    last_x = x.place(px), last_y = y.place(py);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", last_x, last_y);
  }
  if (points.empty()) return "";
  const std::string dots = line.minor ? " stroke-dasharray=\"2 3\"" : "";
  return fmt::format(
      "<g><title>{}</title><polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} points=\"{}\"/>"
      "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/></g>\n",
      html(line.title), line.colour, line.minor ? 1.2 : 2.0, dots, points, last_x, last_y, line.minor ? 2.5 : 3.5,
      line.colour);
}

}  // namespace

std::string html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default:
        if ((c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 0x7F)
          out += "\xEF\xBF\xBD";
        else
          out += c;
    }
  }
  return out;
}

std::string chart_colour(std::size_t i) {
  constexpr std::array colours{"#8a8a8a", "#3d85c6", "#e0662b", "#1f9e77", "#b565a7",
                               "#c98a00", "#56b4d9", "#9a6b4f", "#d1495b", "#7a7fd1"};
  return colours[i % colours.size()];
}

std::string svg(const LineChart& chart) {
  Extremes across, up;
  for (const ChartLine& line : chart.lines)
    for (const auto& [px, py] : line.points)
      if (std::isfinite(px) && std::isfinite(py)) across.add(px), up.add(py);
  if (!(across.most >= across.least)) return "";
  const Axis x{.low = 0, .high = across.most > 0 ? across.most : 1, .from = kLeft, .to = kWidth - kRight};
  const Axis y = y_axis(up);
  std::string out = begin(kWidth, kHeight, chart.title) + draw_axes(chart, x, y);
  for (const bool minor : {true, false})  // what counts lies on top
    for (const ChartLine& line : chart.lines)
      if (line.minor == minor) out += draw(line, x, y);
  return out + "</svg>\n";
}

std::string svg(const BarChart& chart) {
  constexpr double width = 900, row = 48, thick = 22, right = 90;
  double most = 0;
  for (const Bar& bar : chart.bars) {
    double sum = 0;
    for (const BarPart& part : bar.parts) sum += part.value;
    most = std::max(most, sum);
  }
  if (!(most > 0)) return "";
  const double bottom = kTop + row * static_cast<double>(chart.bars.size());
  const Axis x{.low = 0, .high = most, .from = 4, .to = width - right};
  std::string out = begin(width, bottom + kBottom, chart.title);
  for (const double tick : x.ticks())
    out += grid_line(x.place(tick), kTop, x.place(tick), bottom) +
           text(x.place(tick), bottom + 18, "middle", fmt::format("{:.6g}", tick));
  out += text((x.from + x.to) / 2, bottom + 38, "middle", chart.x);
  double top = kTop;
  for (const Bar& bar : chart.bars) {
    out += text(x.from, top + 15, "start", bar.label);
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      const double left = x.place(sum);
      sum += std::max(0.0, part.value);
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{}\" "
          "stroke=\"{}\" stroke-width=\"0.8\"><title>{}</title></rect>\n",
          left, top + 20, x.place(sum) - left, thick, part.colour, part.opacity, part.colour, html(part.title));
    }
    out += text(x.place(sum) + 6, top + 36, "start", fmt::format("{:.4g} s", sum));
    top += row;
  }
  return out + "</svg>\n";
}

}  // namespace mrmf
