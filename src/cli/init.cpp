// `mrmf init`: from a file of samples and labels to a configuration that trains at once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "io/coarsen.hpp"
#include "io/file_patterns.hpp"
#include "io/output_file.hpp"
#include "kernels/check.hpp"
#include "src/cli/commands.hpp"
#include "src/config/toml.hpp"
#include "src/data/channel_facts.hpp"
#include "src/data/first_look.hpp"
#include "src/plan/labels.hpp"
#include "src/plan/plan.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"
#include "src/training/memory_estimate.hpp"

namespace mrmf {
namespace {

constexpr int kMostBatch = 64, kLeastSteps = 20;
constexpr double kMemoryShare = 0.4;  // of the node's, for models and batches

struct InitOptions {
  std::vector<std::string> files;
  GivenNames names;
  std::string output = "run.toml", folder = "runs/first";
  Replace replace = Replace::nothing;
};

/// A configuration under construction, as text with comments.
struct Draft {
  FirstLook look;
  DatasetShape shape;
  bool skip = false;
  std::string data, model, loss;
  int batch = 1, epochs = 20;

  std::string text(const InitOptions& options) const {
    return "# Written by `mrmf init`. Every key: mrmf presets --keys.\n\n" + data + "\n" + model +
           fmt::format(
               "\n[training]\nloss = \"{}\"\nepochs = {}  # what one would give training at full resolution\n"
               "batch = {}  # per rank\nseed = 1\noptimizer = {{ name = \"adam\", learning_rate = 1e-3, rule = "
               "\"cosine\" }}\n",
               loss, epochs, batch) +
           "\n[method]\nname = \"auto\"  # coarse resolutions first where that saves time; `mrmf plan` shows what it "
           "comes to\n" +
           fmt::format("\n[run]\nfolder = {}\n", quoted(options.folder));
  }
};

// Every digit that tells a number from its neighbours: what is given is then what would have been measured.
std::string numbers(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

// Units by mean and deviation of `what`: measured in training, or given where a channel has no deviation to divide by.
std::string units(const std::string& what, const std::string& logarithm, const ChannelFacts& facts) {
  std::vector<double> deviations = facts.deviation;
  bool constant = false;
  for (double& deviation : deviations)
    if (!(deviation > 0)) {
      constant = true;
      deviation = 1;
    }
  if (!constant) return fmt::format("normalise.{}s = \"{}mean_std\"\n", what, logarithm);
  return fmt::format(
      "# A channel is the same everywhere, so these are given instead of measured.\n"
      "normalise.{0}s = \"mean_std\"\nnormalise.{0}_mean = {1}\nnormalise.{0}_std = {2}\n",
      what, numbers(facts.mean), numbers(deviations));
}

// After a logarithm where numbers from 0 on range over orders of magnitude.
std::string sample_units(const ChannelFacts& facts) {
  constexpr double kOrders = 100;
  bool logarithm = true;
  for (std::size_t c = 0; c < facts.mean.size(); ++c)
    logarithm = logarithm && facts.least[c] >= 0 && facts.most[c] > kOrders * std::max(facts.mean[c], 0.1);
  return units("sample", logarithm ? "log1p_" : "", facts);
}

DatasetSpec spec_of(const InitOptions& options, const FirstLook& look) {
  DatasetSpec spec;
  spec.files = expand_patterns(options.files);
  spec.samples = look.samples;
  spec.labels = look.labels;
  spec.axes = look.axes;
  spec.not_finite = NotFiniteRule::skip;
  spec.form = {look.kind, look.kind == LabelKind::classes ? look.outputs : 0, {}, CoarseLabels::shares};
  return spec;
}

void describe_data(Draft& draft, const InitOptions& options, Comm& world) {
  const FirstLook& look = draft.look;
  const DatasetSpec spec = spec_of(options, look);
  draft.shape = inspect_dataset(spec, world);
  draft.skip = !draft.shape.skipped.empty();
  std::vector<std::string> files;
  for (const std::string& file : options.files) files.push_back(quoted(file));
  std::string& text = draft.data;
  for (const std::string& reason : look.reasons) text += "# " + reason + "\n";
  text += fmt::format("# {} samples of {}\n[data]\nfiles = [{}]\n", draft.shape.samples, to_string(draft.shape.sample),
                      fmt::join(files, ", "));
  if (!look.axes.empty()) text += "axes = " + quoted(look.axes) + "\n";
  const auto split = [](const std::string& part, const std::string& samples, const std::string& labels) {
    return fmt::format("{} = {{ samples = {}, labels = {} }}\n", part, quoted(samples), quoted(labels));
  };
  text += split("train", look.samples, look.labels);
  if (look.validation_samples.empty())
    text += "split = { by = \"rows\", validation = 0.2 }  # a fifth of the rows, chosen at random, validates\n";
  else
    text += split("validation", look.validation_samples, look.validation_labels);
  if (draft.skip)
    text += fmt::format("not_finite = \"skip\"  # {} rows hold NaN or infinity\n", draft.shape.skipped.size());
  text += sample_units(channel_facts(samples_of(spec, draft.shape), false, world));
  if (look.kind == LabelKind::numbers)
    text += units("label", "", channel_facts(labels_of(spec, draft.shape), false, world));
}

// How often all axes can be halved down to `least` positions; with `exactly`, without a remainder.
int halvings(const Shape& sample, Index least, bool exactly) {
  Extent sizes = sample.spatial;
  int count = 0;
  for (;; ++count)
    for (int axis = 3 - sample.axes; axis < 3; ++axis) {
      Index& size = sizes[static_cast<std::size_t>(axis)];
      if (size / 2 < least || (exactly && size % 2 != 0)) return count;
      size /= 2;
    }
}

void describe_model(Draft& draft) {
  const Shape& sample = draft.shape.sample;
  const Index outputs = draft.look.outputs;
  draft.loss = draft.look.kind == LabelKind::classes         ? "cross_entropy"
               : draft.look.kind == LabelKind::probabilities ? "binary_cross_entropy"
                                                             : "mse";
  if (sample.axes == 0) {
    draft.model = "# No positions, so there is nothing to average: dense layers alone.\n";
    for (int i = 0; i < 2; ++i)
      draft.model += "[[model.layers]]\ntype = \"dense\"\nunits = 64\n[[model.layers]]\ntype = \"relu\"\n";
    draft.model += fmt::format("[[model.layers]]\ntype = \"dense\"\nunits = {}\n", outputs);
    return;
  }
  if (draft.shape.label.axes > 0) {
    const int levels = std::min(3, halvings(sample, 4, true));
    if (levels > 0) {
      draft.model = fmt::format(
          "[model]\npreset = \"unet\"  # an answer per position\nlevels = {}\nwidth = 16\n"
          "outputs = {}\n",
          levels, outputs);
      return;
    }
    draft.model = "# The positions cannot be halved without a remainder, so there is no U-Net: convolutions alone.\n";
    const std::string conv = "[[model.layers]]\ntype = \"conv\"\nkernel = 3\npadding = \"same\"\nfilters = ";
    for (int i = 0; i < 2; ++i) draft.model += conv + "16\n[[model.layers]]\ntype = \"relu\"\n";
    draft.model += conv + std::to_string(outputs) + "\n";
    return;
  }
  const int levels = std::clamp(halvings(sample, 4, false) + 1, 1, 4);
  draft.model = fmt::format(
      "[model]\npreset = \"resnet\"  # an answer per sample\nlevels = {}\nwidth = 16\noutputs = {}\n", levels, outputs);
}

// The largest batch of a power of two that memory allows, and that leaves an epoch some steps.
void choose_batch(Draft& draft, const InitOptions& options, Comm& world) {
  draft.batch = kMostBatch;
  while (draft.batch > 1 && draft.batch * kLeastSteps > draft.shape.samples) draft.batch /= 2;
  for (; draft.batch > 1; draft.batch /= 2) {
    const Config config = parse_config(draft.text(options), options.output, {});
    RunConfig cpu = config.run;
    cpu.device = Device::cpu;
    const auto backend = make_backend(cpu, world);
    NetworkSettings network{draft.shape.sample, draft.batch, config.model.layers, config.model.bottom};
    settle_axes(network.layers, draft.shape.sample.axes);
    MemoryCount memory(*backend, config.training, 0);
    if (static_cast<double>(memory.add(network).all()) < kMemoryShare * host_memory()) return;
  }
}

void write_config(const InitOptions& options, Comm& world) {
  Draft draft;
  const std::vector<std::string> files = expand_patterns(options.files);
  collective_try(world, [&] {
    if (is_pattern(files.front())) throw DataError("no file matches " + files.front());
    if (world.root()) require_output(options.output, options.replace, files);
    draft.look = look_at_files(files, options.names);
  });
  describe_data(draft, options, world);
  describe_model(draft);
  choose_batch(draft, options, world);
  const std::string text = draft.text(options);
  Config config = parse_config(text, options.output, {});
  settle_axes(config.model.layers, draft.shape.sample.axes);
  settle_labels(config, draft.shape, {{1, 1, 1}});  // what was guessed must fit
  collective_try(world, [&] {
    if (!world.root()) return;
    write_file(options.output, text, options.replace);
    for (const std::string& reason : draft.look.reasons) std::cout << reason << "\n";
    std::cout << fmt::format("{0}: written; see what it comes to with `mrmf plan {0}`, train with `mrmf train {0}`\n",
                             options.output);
  });
}

}  // namespace

void add_init(Subcommands& commands) {
  CLI::App* init = commands.app.add_subcommand(
      "init", "look at a file of samples and labels, and write a configuration that trains on it at once");
  auto options = std::make_shared<InitOptions>();
  init->add_option("files", options->files, "HDF5 files, or patterns; the first says what is what")->required();
  init->add_option("--samples", options->names.samples,
                   "data set of the samples, if not the one with the largest rows");
  init->add_option("--labels", options->names.labels, "data set of the labels, if not another one with as many rows");
  init->add_option("--axes", options->names.axes,
                   "axes of the samples, such as \"n c y x\", if they are guessed wrongly");
  init->add_option("--output,-o", options->output, "configuration to write")->capture_default_str();
  init->add_option("--folder", options->folder, "run.folder of the configuration")->capture_default_str();
  add_overwrite(*init, options->replace);
  add_example(*init, "mrmf init mydata.h5 -o first.toml");
  commands.run(*init, [=, &world = commands.world] { write_config(*options, world); });
}

}  // namespace mrmf
