// What is said and refused of a plan by configuration and headers: warnings of what is allowed but rarely meant;
// outputs and labels of different shapes, and the number of classes.
#include "src/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <set>

#include "io/coarsen/coarsen.hpp"
#include "io/files/input_file.hpp"
#include "io/rows/labels.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"

namespace mrmf {

// Warnings about settings and data that are allowed but rarely meant.

namespace {

void unread_roles(const Config& config, std::vector<std::string>& lines) {
  const MethodConfig& method = config.method;
  std::vector<std::string> trained;
  for (const Phase& phase : make_plan(config).phases()) trained.push_back(to_string(phase.role));
  const auto check = [&](const std::string& role, const RoleSettings& settings) {
    const bool read = std::find(trained.begin(), trained.end(), role) != trained.end();
    if (settings == RoleSettings{} || read) return;
    lines.push_back(
        fmt::format("keys of method.{0} or method.stop.{0} are set, and this plan ({1}) trains no {0} model: "
                    "nothing reads them",
                    role, to_string(method.name)));
  };
  RoleSettings coarse = method.coarse, dense = method.dense;
  for (const StageOverride& stage : method.stages) {
    if (stage.coarse != RoleSettings{}) coarse = stage.coarse;
    if (stage.dense != RoleSettings{}) dense = stage.dense;
  }
  check("coarse", coarse);
  check("dense", dense);
}

void unread_method_keys(const MethodConfig& method, std::vector<std::string>& lines) {
  const auto unread = [&](bool is, const std::string& key, const std::string& why) {
    if (is) lines.push_back(key + " is set, and " + why + ": nothing reads it");
  };
  unread(!method.team_shares.empty() && method.teams == TeamMode::sequential, "method.team_shares",
         "method.teams is \"sequential\"");
  unread(method.moments == MomentTransfer::carry && method.name == MethodName::baseline, "method.moments = \"carry\"",
         "a baseline fuses nothing");
  unread(method.transfer == TransferEpoch::best && method.name == MethodName::baseline, "method.transfer = \"best\"",
         "a baseline fuses nothing");
}

// The coarse model was trained on logarithms of averages, and what a stem makes at first are averages of logarithms.
void jump_behind_stem(const Config& config, std::vector<std::string>& lines) {
  if (config.method.top != TopRule::stem || !config.data.normalise_samples.log1p) return;
  lines.push_back(
      "data.normalise.samples takes logarithms, and method.top = \"stem\" averages them, where the coarse model has "
      "seen logarithms of averages: the loss will jump at the transfer; method.top = \"interpolated\" does not mind");
}

// Keys of [training.optimizer] that only another rule or optimizer reads, if they are not at their defaults.
void unread_optimizer_keys(const Config& config, std::vector<std::string>& lines) {
  const OptimizerSettings &is = config.training.optimizer, standard;
  const std::vector<Phase> phases = make_plan(config).phases();
  const auto ruled = [&](RateRule rule) {
    return std::any_of(phases.begin(), phases.end(), [&](const Phase& p) { return p.optimizer.rule == rule; });
  };
  const auto unread = [&](const std::string& key, bool set, bool read, const std::string& reader) {
    if (set && !read)
      lines.push_back(
          fmt::format("training.optimizer.{} is set, and only {} reads it, which this plan does not use", key, reader));
  };
  const bool plateau = ruled(RateRule::plateau), piecewise = ruled(RateRule::piecewise),
             sgd = is.name == OptimizerKind::sgd, lion = is.name == OptimizerKind::lion;
  const std::string adam_or_lion = "the optimizer \"adam\", \"adamw\" or \"lion\"";
  unread("patience", is.patience != standard.patience, plateau, "the rule \"plateau\"");
  unread("cooldown", is.cooldown != standard.cooldown, plateau, "the rule \"plateau\"");
  unread("plateau_threshold", is.plateau_threshold != standard.plateau_threshold, plateau, "the rule \"plateau\"");
  unread("boundaries", !is.boundaries.empty(), piecewise, "the rule \"piecewise\"");
  unread("factor", is.factor != standard.factor, plateau || piecewise, "the rule \"plateau\" or \"piecewise\"");
  unread("momentum", is.momentum != standard.momentum, sgd, "the optimizer \"sgd\"");
  unread("beta1", is.beta1 != standard.beta1, !sgd, adam_or_lion);
  unread("beta2", is.beta2 != standard.beta2, !sgd, adam_or_lion);
  unread("epsilon", is.epsilon != standard.epsilon, !sgd && !lion, "the optimizer \"adam\" or \"adamw\"");
}

void unread_momenta_keys(const MomentaSettings& is, std::vector<std::string>& lines) {
  const MomentaSettings standard;
  if (!is.tensors.empty() && !is.averaged())
    lines.push_back(
        "training.momenta.tensors is set, and only the rules \"every\" and \"spaced\" of training.momenta.rule read "
        "it");
  const auto unread = [&](const std::string& key, bool set, MomentaRule reader) {
    if (set && is.rule != reader)
      lines.push_back(
          fmt::format("training.momenta.{} is set, and only the rule \"{}\" of training.momenta.rule reads it", key,
                      words_of<MomentaRule>().at(static_cast<std::size_t>(reader))));
  };
  unread("every", is.every != standard.every, MomentaRule::every);
  unread("spacing", is.spacing != standard.spacing, MomentaRule::spaced);
}

void unread_split_keys(const SplitSettings& is, Task task, std::vector<std::string>& lines) {
  const SplitSettings standard;
  const auto unread = [&](const std::string& key, bool set, const std::string& why) {
    if (set) lines.push_back("data.split." + key + " is set, and " + why + ": nothing reads it");
  };
  unread("stratify", is.stratify.value_or(false) && task != Task::classes,
         "training.loss is not of classes, which parts would have alike shares of");
  const bool chosen = is.by == SplitBy::rows || is.by == SplitBy::files || is.by == SplitBy::groups;
  if (chosen) return;
  const bool drawn = is.by == SplitBy::folds && is.folds > 0;
  const std::string says = is.by == SplitBy::given
                               ? "data.split.by is \"given\", so data.validation names what validates"
                           : is.by == SplitBy::column ? "data.split.by is \"column\", so the column says what validates"
                           : is.by == SplitBy::arrays ? "data.split.by is \"arrays\", which say what validates"
                           : drawn                    ? "data.split.by is \"folds\", of which one validates"
                                   : "data.split.by is \"folds\", and the column says each row's fold";
  unread("validation", is.validation != standard.validation, says);
  unread("seed", is.seed != standard.seed && !drawn, says);
  unread("stratify", is.stratify.value_or(false) && !drawn, says);
}

/// Files by what they are, not only by their names. One look at each, since there may be thousands.
class FileSet {
 public:
  void add(const std::string& path) {
    names_.insert(path);
    if (const auto identity = file_identity(path)) files_.insert(*identity);
  }
  bool contains(const std::string& path) const {
    if (names_.contains(path)) return true;
    const auto identity = file_identity(path);  // none for a file that is absent: it has only its name
    return identity && files_.contains(*identity);
  }

 private:
  std::set<std::string> names_;
  std::set<FileIdentity> files_;
};

// Refused unless data.duplicates allows it.
void same_data(const DataConfig& data, std::vector<std::string>& lines) {
  if (data.duplicates == DuplicateRule::refuse) return;
  if (data.train.samples != data.validation.samples || data.train.choice != data.validation.choice) return;
  FileSet training;
  for (const std::string& file : data.train.files) training.add(file);
  const auto both =
      std::ranges::find_if(data.validation.files, [&](const std::string& file) { return training.contains(file); });
  if (both == data.validation.files.end()) return;
  lines.push_back(fmt::format(
      "the validation samples ('{}' in {}) are training samples too: the validation loss will not show how the "
      "model does on data it has not seen; name others under data.validation",
      data.validation.samples, *both));
}

// The sizes of a data set of n such samples.
std::string stored(const Shape& sample) {
  std::vector<Index> sizes(sample.spatial.end() - sample.axes, sample.spatial.end());
  sizes.push_back(sample.channels);
  return fmt::format("(n, {})", fmt::join(sizes, ", "));
}

// data.axes for samples with so many axes of positions.
std::string axes_text(int spatial, bool channels_first) {
  const std::string names[] = {"x", "y x", "z y x"};
  return std::string("data.axes = \"n ") + (channels_first ? "c " : "") + names[spatial - 1] + "\"";
}

// No axis of channels: there are about as many "channels" as positions. With three axes there is no room for a fourth.
bool looks_without_channels(const Shape& sample) {
  if (sample.axes == 0 || sample.axes == 3 || sample.channels < kManyChannels) return false;
  const Index shortest = *std::min_element(sample.spatial.end() - sample.axes, sample.spatial.end());
  return 2 * sample.channels >= shortest;
}

void odd_shape(const DataConfig& data, const Shape& sample, std::vector<std::string>& lines) {
  const bool first = looks_channels_first(sample);
  if (data.channels || !data.train.axes.empty() || !(first || looks_without_channels(sample))) return;
  std::string line = fmt::format(
      "samples stored as {} are taken for {} positions of {} channels, since channels come last", stored(sample),
      fmt::join(sample.spatial.end() - sample.axes, sample.spatial.end(), "x"), sample.channels);
  if (first) line += "; if yours come first, set " + axes_text(sample.axes, true);
  if (sample.axes < 3) line += "; if there is no axis of channels, set " + axes_text(sample.axes + 1, false);
  lines.push_back(line + fmt::format("; if it is meant so, set data.channels = {}", sample.channels));
}

// Layers of the versions in which a single number was of the last axis alone.
constexpr std::array old_windows{LayerKind::conv, LayerKind::max_pool, LayerKind::average_pool};

void widened_sizes(const Config& config, const Shape& sample, std::vector<std::string>& lines) {
  if (sample.axes < 2 || !config.model.preset.empty()) return;
  std::vector<std::string> names;
  std::string example;
  for (const LayerSpec& spec : config.model.layers) {
    if (std::ranges::find(old_windows, spec.kind) == old_windows.end()) continue;
    const OneForAll& once = spec.one_for_all;
    const bool window = once.window && spec.window.back() > 1;
    if (!window && !(once.stride && spec.stride.back() > 1) && !(once.padding && spec.pad_before.back() > 0)) continue;
    names.push_back(spec.name);
    if (!window || !example.empty()) continue;
    const std::string once_more = fmt::format(", {}", spec.window.back());
    example = fmt::format("{}", spec.window.back());
    for (int axis = 1; axis < sample.axes; ++axis) example += once_more;
  }
  if (names.empty()) return;
  lines.push_back(
      fmt::format("a single number for kernel, window, stride or padding holds along all {} axes; earlier "
                  "versions took it for the last alone; it is given for {}; a list{} means the same in both",
                  sample.axes, fmt::join(names, ", "), example.empty() ? "" : " such as [" + example + "]"));
}

}  // namespace

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> lines = config.deprecation_warnings;
  unread_roles(config, lines);
  unread_method_keys(config.method, lines);
  jump_behind_stem(config, lines);
  unread_optimizer_keys(config, lines);
  unread_momenta_keys(config.training.sums.momenta, lines);
  unread_split_keys(config.data.split, config.training.loss.task(), lines);
  same_data(config.data, lines);
  return lines;
}

std::vector<std::string> sample_warnings(const Config& config, const Shape& sample) {
  std::vector<std::string> lines;
  odd_shape(config.data, sample, lines);
  widened_sizes(config, sample, lines);
  return lines;
}

std::vector<std::string> row_warnings(Index training, Index validation) {
  if (validation <= training) return {};
  return {fmt::format(
      "{} samples validate and {} train: more than half of the data teaches nothing; see data.split, or what "
      "data.train and data.validation name",
      validation, training)};
}

void require_channels(const DataConfig& data, const Shape& sample) {
  const Index channels = sample.channels - (data.train.mask ? 1 : 0);  // channels in the files
  if (!data.channels || *data.channels == channels) return;
  const bool first = sample.axes > 0 && sample.spatial[static_cast<std::size_t>(3 - sample.axes)] == *data.channels;
  const bool missing = *data.channels == 1 && sample.axes < 3 && data.train.axes.empty();
  const std::string what = first && data.train.axes.empty() ? "yours come first: set " + axes_text(sample.axes, true)
                           : missing ? "there is no axis of channels: set " + axes_text(sample.axes + 1, false)
                                     : "set data.channels to that, or name other samples";
  throw ConfigError(fmt::format("data.channels = {}, and samples stored as {} have {} channels, their last axis; {}",
                                *data.channels, stored(sample), channels, what));
}

void print_warnings(const std::vector<std::string>& lines, const Comm& world) {
  if (!world.root()) return;
  for (const std::string& line : lines) std::cerr << "mrmf: warning: " << line << "\n";
}

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
