#include "src/plan/output_and_label_shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/coarsen/coarsen.hpp"
#include "io/rows/labels.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr Index kMostClasses = 65535;  // held and predicted as uint16, whose largest stands for an ignored label

void resolve_classes(Config& config, Index channels, Index one_hot) {
  TrainingConfig& training = config.training;
  if (one_hot > 0 && one_hot != channels)
    throw ConfigError(
        fmt::format("the labels '{}' are one-hot rows of {} classes, and the network's last layer has {} channels; it "
                    "needs one for each class",
                    config.data.train.labels, one_hot, channels));
  if (!training.class_values.empty() && std::ssize(training.class_values) != channels)
    throw ConfigError(
        fmt::format("training.class_values names {} classes, and the network's last layer has {} channels; it needs "
                    "one for each class",
                    training.class_values.size(), channels));
  if (training.classes && *training.classes != channels)
    throw ConfigError(
        fmt::format("training.classes = {}, and the network's last layer has {} channels; it needs one "
                    "for each class",
                    *training.classes, channels));
  if (channels > kMostClasses)
    throw ConfigError(
        fmt::format("the network's last layer has {} channels, and classes are at most {}", channels, kMostClasses));
  if (channels < 2)
    throw ConfigError(
        "the network has a single output channel, and classes need one for each; use binary_cross_entropy for yes or "
        "no, or give the last layer more");
  training.classes = static_cast<int>(channels);
  config.data.train.form.classes = config.data.validation.form.classes = config.data.test.form.classes = channels;
}

// Labels without positions may be as many as an output with positions has numbers.
bool alike(const Shape& output, const Shape& target, const LabelForm& form) {
  if (form.kind == LabelKind::classes) return output.spatial == target.spatial;
  if (target.axes == 0) return output.per_sample() == target.per_sample();
  return output.spatial == target.spatial && output.channels == target.channels;
}

void require_alike(const Shape& output, const DatasetShape& shape, const Config& config, const Extent& resolution) {
  const LabelForm& form = config.data.train.form;
  Shape target = target_shape(shape.label, form, resolution);
  if (config.data.patch.any()) target.spatial = network_input(config, shape.sample, resolution).spatial;
  if (alike(output, target, form)) return;
  if (form.kind != LabelKind::classes && output.axes == 0 && target.axes == 0)
    throw ConfigError(
        fmt::format("the model has {} outputs and the data {} labels per sample; set the units of the "
                    "last layer, or data.train.labels",
                    output.per_sample(), target.per_sample()));
  const bool classes = form.kind == LabelKind::classes;
  const Index width = shape.sample.spatial[2];
  const bool flat = !classes && shape.sample.axes == 1 && shape.label.axes == 0 && shape.label.channels == width;
  const auto positions = [&](const Shape& of) {
    if (!classes) return to_string(of);
    Shape one = of;
    one.channels = 1;
    return of.axes == 0 ? std::string("one class per sample") : to_string(one);
  };
  const int axes = shape.sample.axes;
  const Extent first{1, 1, 1};
  throw ConfigError(fmt::format(
      "the network's output is {}{} and the labels are {}{}; give them the same positions: change the network's "
      "strides, poolings and padding or where it is flattened, or take other labels{}{}",
      classes ? positions(output) : to_string(output), classes && output.axes > 0 ? " classes" : "", positions(target),
      resolution == first
          ? ""
          : fmt::format(" at resolution [{}]", fmt::join(resolution.end() - axes, resolution.end(), ",")),
      flat ? fmt::format("; if each is of a position, store them as (n, {}, 1)", width) : "",
      classes && output.axes == 0 && shape.label.axes == 1
          ? fmt::format(
                "; rows of {} numbers are one class per sample where they are one-hot, with a single 1 and else "
                "0, and these are not; where several may hold, take binary_cross_entropy",
                shape.label.spatial[2])
          : ""));
}

// What a layer takes for all labels of a sample.
void require_sources(const DatasetShape& shape, const Config& config, const Extent& resolution) {
  const Index labels = target_shape(shape.label, config.data.train.form, resolution).per_sample();
  for (const LayerSpec& layer : config.model.layers)
    if (layer.kind == LayerKind::labels && layer.units != labels)
      throw ConfigError(
          fmt::format("model.layers: {} gives {} labels, and the data have {} per sample; set its units to "
                      "that, or name other labels",
                      layer.name, layer.units, labels));
}

}  // namespace

void resolve_labels(Config& config, const DatasetShape& shape, const std::vector<Extent>& resolutions) {
  const auto backend = make_reference_backend();
  for (const Extent& resolution : resolutions) {
    const Shape output =
        Network(*backend, network_for(config, resolution, network_input(config, shape.sample, resolution))).output();
    if (config.training.loss.task() == Task::classes) resolve_classes(config, output.channels, shape.one_hot);
    const std::vector<float>& weights = config.training.loss.class_weights;
    if (!weights.empty() && std::ssize(weights) != output.channels)
      throw ConfigError(
          fmt::format("training.class_weights has {} entries, and the network's last layer {} channels; "
                      "give a weight for each",
                      weights.size(), output.channels));
    if (config.data.sampling == Sampling::balanced && shape.label.axes > 0)
      throw ConfigError("data.sampling = \"balanced\" draws samples by their class, and the labels '" +
                        config.data.train.labels_text() +
                        "' have positions; use training.class_weights = \"balanced\", or a loss with dice");
    const auto& metric = config.training.metric;
    if (metric && metric->of >= output.channels)
      throw ConfigError(
          fmt::format("training.metric = \"{}\", and the network's last layer has {} channels, counted "
                      "from 0; name one of them",
                      to_string(*metric), output.channels));
    require_alike(output, shape, config, resolution);
    require_sources(shape, config, resolution);
    if (config.data.augment.moves() && shape.mixed.any())
      throw ConfigError(
          fmt::format("data.augment moves positions, and the labels '{}' are a list of numbers with or "
                      "without positions, which would stay; remove its flips, turns and shifts",
                      config.data.train.labels_text()));
    if (config.data.augment.moves() && output.axes > 0 && shape.label.axes == 0)
      throw ConfigError(fmt::format(
          "data.augment changes samples and labels with positions alike, and the labels '{}' are {} numbers "
          "per sample for an output of {}; store them with positions, such as (n, {}, 1)",
          config.data.train.labels_text(), shape.label.channels, to_string(output), output.spatial[2]));
  }
}

std::vector<std::string> class_warnings(const Config& config, const std::vector<Index>& counts) {
  std::vector<Index> absent;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] == 0) absent.push_back(static_cast<Index>(c));
  if (absent.empty()) return {};
  const bool one = absent.size() == 1;
  const std::string more = absent.size() > 8 ? ", ..." : "";
  if (!more.empty()) absent.resize(8);
  return {fmt::format("class{} {}{} never occur{} in the training labels ('{}'): the network cannot learn {}{}",
                      one ? "" : "es", fmt::join(absent, ", "), more, one ? "s" : "", config.data.train.labels_text(),
                      one ? "it" : "them",
                      config.training.class_values.empty() ? "; are the classes numbered from 0?" : "")};
}

}  // namespace mrmf
