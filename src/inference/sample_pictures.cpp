#include "src/inference/sample_pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/data/label_names.hpp"
#include "src/training/metrics.hpp"
#include "src/training/probabilities.hpp"

namespace mrmf {
namespace {

using Colour = std::array<std::uint8_t, 3>;

// The i-th class: dark for the background, then colours that colour-blind readers tell apart.
Colour class_colour(Index c) {
  constexpr std::array<Colour, 8> colours{{{38, 42, 48},
                                           {230, 159, 0},
                                           {86, 180, 233},
                                           {0, 158, 115},
                                           {240, 228, 66},
                                           {0, 114, 178},
                                           {213, 94, 0},
                                           {204, 121, 167}}};
  if (c < 0) return {255, 255, 255};
  return colours[c == 0 ? 0 : 1 + static_cast<std::size_t>(c - 1) % 7];
}

// From dark blue over green to yellow, with `share` from 0 to 1.
Colour field_colour(double share) {
  constexpr std::array<std::array<double, 3>, 5> stops{
      {{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}}};
  const double at = std::clamp(std::isnan(share) ? 0.0 : share, 0.0, 1.0) * 4;
  const auto i = std::min<std::size_t>(3, static_cast<std::size_t>(at));
  Colour colour{};
  for (std::size_t k = 0; k < 3; ++k)
    colour[k] = static_cast<std::uint8_t>(
        std::lround(stops[i][k] + (at - static_cast<double>(i)) * (stops[i + 1][k] - stops[i][k])));
  return colour;
}

/// Numbers of every position: a channel of something, or classes.
struct Plane {
  Extent spatial{1, 1, 1};
  std::vector<double> values{};
  std::pair<double, double> range() const {
    double least = 0, most = 0;
    bool first = true;
    for (const double value : values) {
      if (!std::isfinite(value)) continue;
      least = first ? value : std::min(least, value), most = first ? value : std::max(most, value);
      first = false;
    }
    return {least, most};
  }
  /// Those of one slice of the first axis.
  Plane slice(Index at) const {
    const auto size = static_cast<std::size_t>(spatial[1] * spatial[2]), first = static_cast<std::size_t>(at) * size;
    return {{1, spatial[1], spatial[2]},
            {values.begin() + static_cast<std::ptrdiff_t>(first),
             values.begin() + static_cast<std::ptrdiff_t>(first + size)}};
  }
};

Plane channel(const Extent& spatial, ConstSpan values, Index channels, Index c) {
  Plane plane{spatial, {}};
  for (std::size_t i = static_cast<std::size_t>(c); i < values.size(); i += static_cast<std::size_t>(channels))
    plane.values.push_back(values[i]);
  return plane;
}

template <class Of>
Picture paint(const std::string& title, const Plane& plane, const Of& colour_of) {
  // Pictures that are larger than a page shows are thinned out.
  constexpr Index most = 192;
  const Index step = std::max<Index>(1, (std::max(plane.spatial[1], plane.spatial[2]) + most - 1) / most);
  Picture picture{.title = title};
  picture.height = (plane.spatial[1] + step - 1) / step, picture.width = (plane.spatial[2] + step - 1) / step;
  for (Index y = 0; y < plane.spatial[1]; y += step)
    for (Index x = 0; x < plane.spatial[2]; x += step)
      for (const std::uint8_t part : colour_of(plane.values[static_cast<std::size_t>(y * plane.spatial[2] + x)]))
        picture.rgb.push_back(part);
  return picture;
}

Picture grey(const std::string& title, const Plane& plane) {
  const auto [least, most] = plane.range();
  return paint(title, plane, [least = least, most = most](double value) {
    const double share = most > least && std::isfinite(value) ? (value - least) / (most - least) : 0;
    const auto part = static_cast<std::uint8_t>(std::lround(255 * share));
    return Colour{part, part, part};
  });
}

/// What is compared: a name, what is true and what is said.
struct Pair {
  std::string name;
  Plane truth, said;
};

std::vector<Pair> pairs_of(const Trained& t, ConstSpan labels, ConstSpan outputs) {
  const Shape output = t.output();
  const Index channels = output.channels;
  if (t.task() == Task::classes) {
    Pair pair{"", {output.spatial, {}}, {output.spatial, {}}};
    const auto wide = static_cast<std::size_t>(t.target_channels()), k = static_cast<std::size_t>(channels);
    for (std::size_t i = 0; i * k < outputs.size(); ++i) {
      pair.truth.values.push_back(static_cast<double>(MetricSums::label(labels.subspan(i * wide, wide))));
      pair.said.values.push_back(static_cast<double>(MetricSums::largest(outputs.subspan(i * k, k))));
    }
    return {std::move(pair)};
  }
  const bool binary = t.task() == Task::binary;
  const std::vector<float> p =
      binary ? probabilities(Task::binary, channels, outputs) : std::vector<float>(outputs.begin(), outputs.end());
  constexpr Index most = 3;  // outputs
  const std::vector<std::string>& names = names_of(t.config);
  const auto name = [&](Index c) {
    if (!names.empty()) return " " + names[static_cast<std::size_t>(c)];
    return channels > 1 ? " " + std::to_string(c) : std::string();
  };
  std::vector<Pair> pairs;
  for (Index c = 0; c < std::min(channels, most); ++c)
    pairs.push_back({name(c), channel(output.spatial, labels, channels, c), channel(output.spatial, p, channels, c)});
  return pairs;
}

// The slice of a volume in which what is true differs most.
Index telling_slice(const Plane& truth) {
  Index best = truth.spatial[0] / 2;
  double most = -1;
  for (Index at = 0; at < truth.spatial[0]; ++at) {
    const Plane slice = truth.slice(at);
    double sum = 0, squares = 0;
    for (const double value : slice.values) sum += value, squares += value * value;
    const double n = static_cast<double>(slice.values.size()), spread = squares - sum * sum / n;
    if (spread > most * 1.000001) most = spread, best = at;
  }
  return best;
}

// What a page shows of a curve: of a long one the least and the most of each stretch, in their order.
std::vector<std::pair<double, double>> curve_points(const std::vector<double>& values) {
  constexpr std::size_t kMostPoints = 800;
  const std::size_t stretch = values.size() <= kMostPoints ? 1 : (2 * values.size() + kMostPoints - 1) / kMostPoints;
  std::vector<std::pair<double, double>> points;
  const auto add = [&](std::size_t at) { points.emplace_back(static_cast<double>(at), values[at]); };
  for (std::size_t first = 0; first < values.size(); first += stretch) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first),
               end = values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), first + stretch));
    const auto [least, most] = std::minmax_element(begin, end);
    const auto [early, late] = std::minmax(  // of a list, which gives values; of two temporaries it gives references
        {static_cast<std::size_t>(least - values.begin()), static_cast<std::size_t>(most - values.begin())});
    add(early);
    if (late != early) add(late);
  }
  return points;
}

}  // namespace

SampleReport picture_of(const Trained& t, const std::string& title, ConstSpan sample, ConstSpan labels,
                        ConstSpan outputs) {
  SampleReport report{.title = title};
  const Shape in = t.input(), out = t.output();
  std::vector<Pair> pairs = pairs_of(t, labels, outputs);
  if (out.axes == 1) {
    for (const Pair& pair : pairs) {
      report.curves.push_back({"true" + pair.name, curve_points(pair.truth.values)});
      report.curves.push_back({"predicted" + pair.name, curve_points(pair.said.values)});
    }
    return report;
  }
  Plane seen = channel(in.spatial, sample, in.channels, 0);
  if (out.axes == 3) {
    const Index at = telling_slice(pairs.front().truth);
    // The input may have other positions than the output: the slice at the same share of the axis.
    seen = seen.slice(std::min(in.spatial[0] - 1, at * in.spatial[0] / std::max<Index>(1, out.spatial[0])));
    for (Pair& pair : pairs) pair.truth = pair.truth.slice(at), pair.said = pair.said.slice(at);
    report.title += ", slice " + std::to_string(at);
  }
  report.pictures.push_back(grey("sample", seen));
  for (const Pair& pair : pairs) {
    const auto [least, most] = t.task() == Task::binary ? std::pair(0.0, 1.0) : pair.truth.range();
    const bool numbers = t.task() == Task::regression;
    const std::string range = numbers ? fmt::format(", {:.3g} (dark) to {:.3g}", least, most) : "";
    const auto colour = [&, least = least, most = most](double value) {
      if (t.task() == Task::classes) return class_colour(static_cast<Index>(value));
      return field_colour(most > least ? (value - least) / (most - least) : 0.5);
    };
    report.pictures.push_back(paint("true" + pair.name + range, pair.truth, colour));
    report.pictures.push_back(paint("predicted" + pair.name, pair.said, colour));
  }
  return report;
}

std::vector<ClassColour> colours_of(const std::vector<std::string>& classes) {
  std::vector<ClassColour> colours;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto [red, green, blue] = class_colour(static_cast<Index>(c));
    colours.push_back({fmt::format("#{:02x}{:02x}{:02x}", red, green, blue), classes[c]});
  }
  return colours;
}

}  // namespace mrmf
