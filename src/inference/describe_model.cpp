// A trained model for a report: its scores, and some samples as pictures and curves.
#include "src/inference/describe_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>

#include "kernels/errors.hpp"
#include "src/data/classes.hpp"
#include "src/inference/evaluate_and_predict.hpp"
#include "src/inference/trained_models.hpp"
#include "src/run/model_report.hpp"
#include "src/training/metrics.hpp"

namespace mrmf {

// Masks and fields as pictures.

/// Pictures, or curves, of one sample: its first channel, its labels and outputs. Of three axes the slice is shown in
/// which labels differ most. `sample` is (positions, channels) in the network's units, labels and outputs in their own.
/// requires: outputs with positions.
SampleReport picture_of(const Trained& t, const std::string& title, ConstSpan sample, ConstSpan labels,
                        ConstSpan outputs);

/// The colours of these classes in pictures.
std::vector<ClassColour> colours_of(const std::vector<std::string>& classes);

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
    const auto [early, late] = std::minmax(  // a list gives values; two temporaries would give references
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

namespace {

constexpr Index kShown = 4;      // samples
constexpr Index kPoints = 1500;  // points of an output
constexpr Index kOutputs = 12;
constexpr Index kColours = 8;  // colours of classes, before they repeat

/// Collects what the page shows, batch by batch.
class Describing {
 public:
  Describing(const Trained& t, ModelReport& report) : t_(t), report_(report) {
    const Index numbers = t.shape.samples * product(t.output().spatial);
    step_ = std::max<Index>(1, numbers / kPoints);
    for (Index s = 0; s < std::min(kShown, t.shape.samples); ++s) shown_.push_back(s * t.shape.samples / kShown);
    if (t.task() != Task::regression) return;
    for (Index c = 0; c < std::min(kOutputs, t.output().channels); ++c)
      report.outputs.push_back(
          {c < std::ssize(report.names) ? report.names[static_cast<std::size_t>(c)] : fmt::format("label {}", c), {}});
  }

  void add(const BatchResult& batch) {
    std::vector<float> outputs(batch.outputs.begin(), batch.outputs.end());
    std::vector<float> labels(batch.labels.begin(), batch.labels.end());
    undo(batch.by.labels, 0, outputs);
    undo(batch.by.labels, 0, labels);
    for (std::size_t c = 0; c < report_.outputs.size(); ++c) add_points(c, labels, outputs, batch.first);
    if (t_.output().axes > 0) add_samples(batch, labels, outputs);
  }

 private:
  void add_points(std::size_t c, ConstSpan labels, ConstSpan outputs, Index first) {
    const Index channels = t_.output().channels, per_sample = product(t_.output().spatial);
    for (Index i = 0; i * channels < std::ssize(outputs); ++i) {
      const auto at = static_cast<std::size_t>(i * channels) + c;
      if ((first * per_sample + i) % step_ == 0) report_.outputs[c].points.emplace_back(labels[at], outputs[at]);
    }
  }

  void add_samples(const BatchResult& batch, ConstSpan labels, ConstSpan outputs) {
    const auto in = batch.samples.size() / static_cast<std::size_t>(batch.rows);
    const auto out = outputs.size() / static_cast<std::size_t>(batch.rows);
    const auto target = labels.size() / static_cast<std::size_t>(batch.rows);
    for (const Index id : shown_) {
      if (id < batch.first || id >= batch.first + batch.rows) continue;
      const auto row = static_cast<std::size_t>(id - batch.first);
      report_.shown.push_back(picture_of(t_, fmt::format("sample {}", id), batch.samples.subspan(row * in, in),
                                         labels.subspan(row * target, target), outputs.subspan(row * out, out)));
    }
  }

  const Trained& t_;
  ModelReport& report_;
  Index step_ = 1;
  std::vector<Index> shown_;
};

// Their numbers where they have no names.
std::vector<std::string> class_names(std::vector<std::string> names, Index classes) {
  for (Index c = std::ssize(names); c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

void describe(ModelReport& report, Subset split, Comm& self) {
  ModelOptions options;
  options.models = {report.run};
  options.split = split;
  std::ostringstream notes;
  options.notes = &notes;
  Trained t = open_trained(options, LabelUse::needed, self);
  report.names = names_of(t.config);
  Scores scores(evaluation_settings(t), report.names);
  if (t.task() == Task::classes && t.output().axes > 1 && t.output().channels <= kColours)
    report.key = colours_of(class_names(report.names, t.output().channels));
  Describing describing(t, report);
  for_each_batch(t, {}, [&](const BatchResult& batch) {
    scores.add(batch.outputs, batch.labels, batch.loss);
    describing.add(batch);
  });
  report.scores = scores.json();
  report.samples = fmt::format("{} {} samples", t.shape.samples, split == Subset::test ? "test" : "validation");
  report.command = fmt::format("mrmf evaluate {}{}", report.run, split == Subset::test ? " --split test" : "");
  report.model = epoch_of(choose_model(report.run, {}, self).file, self).text;
  const TrainingConfig& training = t.config.training;
  const auto metric = metric_of(training, t.output());
  const bool by_metric = training.monitor == Monitor::metric && metric;
  if (report.model.empty()) return;
  report.model += "; epochs are judged by the validation " + (by_metric ? to_string(*metric) : std::string("loss"));
}

}  // namespace

ModelReport describe_model(const std::string& run, Subset split, Comm& self) {
  ModelReport report{.run = run};
  try {
    describe(report, split, self);
  } catch (const ConfigError& error) {
    report.problem = error.what();
  } catch (const DataError& error) {
    report.problem = error.what();
  } catch (const FaultError& error) {
    report.problem = error.what();
  }
  return report;
}

}  // namespace mrmf
