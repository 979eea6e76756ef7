#include "src/compare/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mrmf {
namespace {

constexpr double kWidth = 560, kHeight = 320, kLeft = 74, kRight = 16, kTop = 34, kBottom = 46;

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

  double pixel(double value) const {
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
Axis y_axis(const Extremes& y, bool linear = false) {
  Axis axis{.low = y.least, .high = y.most, .from = kHeight - kBottom, .to = kTop};
  axis.logarithmic = !linear && y.least > 0 && y.most > 3 * y.least;
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

constexpr std::size_t kLongestName = 18;   // characters of a class in a matrix
constexpr double kLetter = 7, kLine = 14;  // size of a tick's label

std::string cell_text(double count) {
  return count < 100000 ? fmt::format("{:.0f}", count) : fmt::format("{:.2g}", count);
}

// Labels of ticks; one that would overlap the label before it is left out.
std::string draw_axes(const std::string& x_name, const std::string& y_name, const Axis& x, const Axis& y) {
  std::string out;
  double free = std::numeric_limits<double>::infinity();  // above the label before; y grows downwards
  for (const double tick : y.ticks()) {
    const double at = y.pixel(tick);
    out += grid_line(x.from, at, x.to, at);
    if (at > free) continue;
    out += text(x.from - 6, at + 4, "end", fmt::format("{:.6g}", tick));
    free = at - kLine;
  }
  free = -std::numeric_limits<double>::infinity();
  for (const double tick : x.ticks()) {
    const double at = x.pixel(tick);
    const std::string label = fmt::format("{:.6g}", tick);
    const double half = kLetter * static_cast<double>(label.size()) / 2;
    out += grid_line(at, y.from, at, y.to);
    if (at - half < free) continue;
    out += text(at, y.from + 18, "middle", label);
    free = at + half + kLetter;
  }
  out += text((x.from + x.to) / 2, kHeight - 8, "middle", x_name);
  const double middle = (y.from + y.to) / 2;
  return out + text(14, middle, "middle", y_name, fmt::format(" transform=\"rotate(-90 14 {:.1f})\"", middle).c_str());
}

std::string draw(const ChartLine& line, const Axis& x, const Axis& y) {
  std::string points;
  double last_x = 0, last_y = 0;
  for (const auto& [px, py] : line.points) {
    if (!std::isfinite(px) || !std::isfinite(py)) continue;
    last_x = x.pixel(px), last_y = y.pixel(py);
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
        if ((static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t') || c == 0x7F)
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
  const Axis y = y_axis(up, chart.linear);
  std::string out = begin(kWidth, kHeight, chart.title) + draw_axes(chart.x, chart.y, x, y);
  for (const bool minor : {true, false})  // what counts lies on top
    for (const ChartLine& line : chart.lines)
      if (line.minor == minor) out += draw(line, x, y);
  for (const ChartMark& mark : chart.marks)
    if (std::isfinite(mark.x) && std::isfinite(mark.y))
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"7\" fill=\"none\" stroke=\"{}\" "
          "stroke-width=\"1.8\"><title>{}</title>"
          "</circle>\n",
          x.pixel(mark.x), y.pixel(mark.y), mark.colour, html(mark.title));
  return out + "</svg>\n";
}

std::string svg(const PointChart& chart) {
  Extremes both;
  for (const auto& [px, py] : chart.points)
    if (std::isfinite(px) && std::isfinite(py)) both.add(px), both.add(py);
  if (!(both.most >= both.least)) return "";
  Axis y = y_axis(both, true), x = y;
  x.from = kLeft, x.to = kLeft + (y.from - y.to);  // a square
  std::string out = begin(x.to + kRight, kHeight, chart.title) + draw_axes(chart.x, chart.y, x, y);
  out += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"currentColor\" stroke-opacity=\"0.5\" "
      "stroke-dasharray=\"4 3\"/>\n",
      x.pixel(x.low), y.pixel(x.low), x.pixel(x.high), y.pixel(x.high));
  for (const auto& [px, py] : chart.points)
    if (std::isfinite(px) && std::isfinite(py))
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"{}\" fill-opacity=\"0.45\"/>\n",
                         x.pixel(px), y.pixel(py), chart_colour(1));
  return out + "</svg>\n";
}

std::string svg(const MatrixChart& chart) {
  if (chart.counts.empty()) return "";
  const std::size_t n = chart.counts.size();
  std::size_t longest = 1;
  for (const std::string& name : chart.names)
    longest = std::max(longest, std::min<std::size_t>(name.size(), kLongestName));
  const auto short_name = [](const std::string& name) {
    if (name.size() <= kLongestName) return name;
    std::size_t end = kLongestName - 1;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;  // not within a letter (UTF-8)
    return name.substr(0, end) + "\u2026";
  };
  const double side = std::clamp(360.0 / static_cast<double>(n), 34.0, 80.0);
  const double left = 30 + 7.5 * static_cast<double>(longest), top = kTop, size = side * static_cast<double>(n);
  // Long names of columns are turned, so that they do not overlap.
  const bool turned = 7.5 * static_cast<double>(longest) > side;
  const double below = turned ? 7 * static_cast<double>(longest) + 36 : 46;
  std::string out = begin(std::max(left + size + 16, 260.0), top + size + below, chart.title);
  for (std::size_t r = 0; r < n; ++r) {
    double sum = 0;
    for (const double count : chart.counts[r]) sum += count;
    const double y = top + side * static_cast<double>(r), middle = y + side / 2 + 4;
    out += text(left - 6, middle, "end", short_name(chart.names[r]));
    const double at = left + side * (static_cast<double>(r) + 0.5), foot = top + size + 16;
    out += turned ? text(at, foot, "end", short_name(chart.names[r]),
                         fmt::format(" transform=\"rotate(-60 {:.1f} {:.1f})\"", at, foot).c_str())
                  : text(at, foot, "middle", short_name(chart.names[r]));
    for (std::size_t c = 0; c < n; ++c) {
      const double x = left + side * static_cast<double>(c), share = sum > 0 ? chart.counts[r][c] / sum : 0;
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"{:.3f}\" "
          "stroke=\"currentColor\" stroke-opacity=\"0.2\"><title>{} taken for {}: {:.0f} ({:.1f} %)</title></rect>\n",
          x, y, side, side, chart_colour(1), 0.85 * share, html(chart.names[r]), html(chart.names[c]),
          chart.counts[r][c], 100 * share);
      out += text(x + side / 2, middle, "middle", cell_text(chart.counts[r][c]));
    }
  }
  out += text(left + size / 2, top + size + below - 6, "middle", chart.x);
  return out +
         text(12, top + size / 2, "middle", chart.y,
              fmt::format(" transform=\"rotate(-90 12 {:.1f})\"", top + size / 2).c_str()) +
         "</svg>\n";
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
    out += grid_line(x.pixel(tick), kTop, x.pixel(tick), bottom) +
           text(x.pixel(tick), bottom + 18, "middle", fmt::format("{:.6g}", tick));
  out += text((x.from + x.to) / 2, bottom + 38, "middle", chart.x);
  double top = kTop;
  for (const Bar& bar : chart.bars) {
    out += text(x.from, top + 15, "start", bar.label);
    double sum = 0;
    for (const BarPart& part : bar.parts) {
      const double left = x.pixel(sum);
      sum += std::max(0.0, part.value);
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" fill-opacity=\"{}\" "
          "stroke=\"{}\" stroke-width=\"0.8\"><title>{}</title></rect>\n",
          left, top + 20, x.pixel(sum) - left, thick, part.colour, part.opacity, part.colour, html(part.title));
    }
    out += text(x.pixel(sum) + 6, top + 36, "start", fmt::format("{:.4g} s", sum));
    top += row;
  }
  return out + "</svg>\n";
}

namespace {

void add_number(std::string& to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(value >> shift & 0xFF);
}

std::uint32_t crc(const std::string& bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const char byte : bytes) {
    sum ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~sum;
}

std::uint32_t adler(const std::string& bytes) {
  std::uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<std::uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

void add_chunk(std::string& file, const std::string& kind, const std::string& bytes) {
  add_number(file, static_cast<std::uint32_t>(bytes.size()));
  file += kind + bytes;
  add_number(file, crc(kind + bytes));
}

// The zlib format with blocks that are stored as they are.
std::string stored(const std::string& bytes) {
  constexpr std::size_t most = 65535;
  std::string out{"\x78\x01", 2};
  for (std::size_t first = 0; first < bytes.size(); first += most) {
    const std::size_t count = std::min(most, bytes.size() - first);
    out += static_cast<char>(first + count == bytes.size() ? 1 : 0);
    const std::array<std::size_t, 2> lengths{count, ~count & 0xFFFF};
    for (const std::size_t length : lengths) {
      out += static_cast<char>(length & 0xFF);
      out += static_cast<char>(length >> 8 & 0xFF);
    }
    out += bytes.substr(first, count);
  }
  add_number(out, adler(bytes));
  return out;
}

std::string base64(const std::string& bytes) {
  constexpr const char* letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? letters[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string png_address(const Picture& picture) {
  std::string head, rows;
  add_number(head, static_cast<std::uint32_t>(picture.width));
  add_number(head, static_cast<std::uint32_t>(picture.height));
  head += std::string("\x08\x02\x00\x00\x00", 5);  // eight bits of red, green and blue
  const auto width = static_cast<std::ptrdiff_t>(3 * picture.width);
  for (Index row = 0; row < picture.height; ++row) {
    rows += '\0';  // no filter
    rows.append(picture.rgb.begin() + row * width, picture.rgb.begin() + (row + 1) * width);
  }
  std::string file{"\x89PNG\r\n\x1a\n", 8};
  add_chunk(file, "IHDR", head);
  add_chunk(file, "IDAT", stored(rows));
  add_chunk(file, "IEND", "");
  return "data:image/png;base64," + base64(file);
}

std::string html_picture(const Picture& picture) {
  return fmt::format(
      "<figure class=\"picture\"><img src=\"{}\" alt=\"{}\" width=\"{}\" height=\"{}\"><figcaption>{}</figcaption>"
      "</figure>\n",
      png_address(picture), html(picture.title), picture.width, picture.height, html(picture.title));
}

}  // namespace mrmf
