// `mrmf init`: from a file of samples and labels to a configuration that trains at once.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>

#include "io/coarsen/coarsen.hpp"
#include "io/files/file_names.hpp"
#include "io/files/output_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/rows/not_finite.hpp"
#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/config/key_table.hpp"
#include "src/config/toml.hpp"
#include "src/data/classes.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/data/statistics.hpp"
#include "src/inspection/dataset_guess.hpp"
#include "src/inspection/survey.hpp"
#include "src/plan/plan.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {
namespace {

constexpr int kMostBatch = 64, kLeastSteps = 20;
constexpr const char* kOutput = "run.toml";
constexpr double kMemoryShare = 0.4;  // share of the node's, for models and batches

struct InitOptions {
  std::vector<std::string> files;
  GivenNames names;
  std::string output = kOutput, folder;
  Replace replace = Replace::nothing;
};

// run.folder, by the name of the configuration: a second run in the first one's is refused.
std::string folder_of(const InitOptions& options) {
  if (!options.folder.empty()) return options.folder;
  const std::filesystem::path output = options.output;
  return "runs/" + (output.filename() == kOutput ? "first" : output.stem().string());
}

/// A configuration under construction, as text with comments.
struct Draft {
  DatasetGuess guess;
  DatasetShape shape;
  std::string data, model, loss;  ///< loss: as TOML
  bool rare = false;              ///< some classes are, in the rows that train
  int batch = 1, epochs = 20;

  std::string text(const InitOptions& options) const {
    std::string labels;
    if (!guess.class_values.empty()) labels += "class_values = " + write_values(guess.class_values) + "\n";
    if (guess.ignore) labels += fmt::format("ignore = {}\n", *guess.ignore);
    if (rare && shape.label.axes == 0) {
      if (guess.kind == LabelKind::classes) labels += "class_weights = \"balanced\"  # some classes are rare\n";
      labels += "metric = \"f1\"\n";
    }
    return "# Written by `mrmf init`. Every key: mrmf presets --keys.\n\n" + data + "\n" + model +
           fmt::format(
               "\n[training]\nloss = {}\n{}epochs = {}  # what one would give training at full resolution\n"
               "batch = {}  # per rank\nseed = 1\noptimizer = {{ name = \"adam\", learning_rate = 1e-3, rule = "
               "\"cosine\" }}\n",
               loss, labels, epochs, batch) +
           "\n[method]\nname = \"auto\"  # coarse resolutions first where that saves time; `mrmf plan` shows what it "
           "comes to\n" +
           fmt::format("\n[run]\nfolder = {}\n", quoted(folder_of(options)));
  }
};

// Every digit that tells a number from its neighbours: what is given is then what would have been measured.
std::string numbers(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

// Units by mean and deviation of `what`: measured in training, or, where there a channel has no deviation to divide by
// or the rows are few, given as those of all rows.
std::string units(const std::string& what, const std::string& logarithm, const ChannelFacts& train, bool few,
                  const std::function<ChannelFacts()>& all) {
  const bool constant = !(std::ranges::min(train.deviation) > 0);
  if (!constant && !few) return fmt::format("normalise.{}s = \"{}mean_std\"\n", what, logarithm);
  ChannelFacts given = all();
  for (double& deviation : given.deviation)
    if (!(deviation > 0)) deviation = 1;
  return fmt::format(
      "# {3}, so these are given instead of measured.\n"
      "normalise.{0}s = \"mean_std\"\nnormalise.{0}_mean = {1}\nnormalise.{0}_std = {2}\n",
      what, numbers(given.mean), numbers(given.deviation),
      constant ? "A channel is the same in all training samples" : "The training samples are few");
}

// Whether numbers from 0 on range over orders of magnitude.
bool over_orders(const ChannelFacts& facts) {
  constexpr double kOrders = 100;
  bool orders = true;
  for (std::size_t c = 0; c < facts.mean.size(); ++c)
    orders = orders && facts.least[c] >= 0 && facts.most[c] > kOrders * std::max(facts.mean[c], 0.1);
  return orders;
}

/// A data set of the files, with all its finite rows or some of them.
struct DraftSplit {
  DatasetSpec spec;
  DatasetShape shape;
  Index lacking = 0;  ///< rows in which numbers are missing that are to be filled
};

// All rows of training data, or of validation data of their own.
DraftSplit part_of(const InitOptions& options, const DatasetGuess& guess, Subset which, Comm& world) {
  const bool validates = which == Subset::validation;
  DraftSplit part;
  part.spec.files = expand_patterns(options.files);
  part.spec.samples = validates ? guess.validation_samples : guess.samples;
  part.spec.labels = validates ? guess.validation_labels : guess.labels;
  part.spec.more_labels = guess.more_labels;
  part.spec.rows = guess.rows;
  part.spec.groups = validates && !guess.validation_groups.empty() ? guess.validation_groups : guess.groups;
  part.spec.axes = guess.axes;
  part.spec.packing = guess.packing;
  part.spec.form = {guess.kind, guess.kind == LabelKind::classes ? guess.outputs : 0, guess.ignore,
                    CoarseLabels::shares, guess.class_values};
  part.shape = inspect_dataset(part.spec, world);
  part.spec.not_finite = NotFiniteRule::skip;
  const std::vector<Index> bad = rows_not_finite(part.spec, part.shape, world);
  // Attributes tell what is missing, or it is missing in most rows: it is not the rows that are bad.
  const auto may_miss = [&] {
    return guess.may_miss || count_packings(part.spec, {part.spec.samples}, world).front().declared > 0;
  };
  if (!bad.empty() && (2 * std::ssize(bad) > part.shape.samples || may_miss())) {
    DatasetSpec fill = part.spec;
    fill.not_finite = NotFiniteRule::fill;
    if (rows_not_finite(fill, part.shape, world).empty()) {
      part.spec.not_finite = NotFiniteRule::fill;
      part.lacking = std::ssize(bad);
      return part;
    }
  }
  part.shape = without_rows(part.shape, part.spec, bad);
  return part;
}

constexpr double kValidation = 0.2;  // share of the rows, where no data sets are there for it

// The rows that the written split trains on.
DraftSplit training_rows(const DraftSplit& all, const DatasetGuess& guess, Comm& world) {
  DraftSplit part = all;
  part.spec.choice = {Subset::train,         guess.split_column, kValidation, DataConfig{}.split.seed, {},
                      guess.split_validation};
  if (!guess.split_arrays.empty()) {
    part.spec.choice.rule = SplitRule::arrays;
    part.spec.choice.train_roles = {guess.split_arrays.train};
    part.spec.choice.validation_roles = {guess.split_arrays.validation};
  }
  if (!guess.group_column.empty()) {
    part.spec.choice.rule = SplitRule::groups;
    part.spec.choice.column = guess.group_column;
    if (guess.kind == LabelKind::classes && guess.more_labels.empty()) part.spec.choice.strata = guess.labels;
  }
  if (all.spec.not_finite == NotFiniteRule::skip && all.shape.skipped.empty())
    part.spec.not_finite = NotFiniteRule::refuse;  // they need not be read again
  part.shape = inspect_dataset(part.spec, world);
  return part;
}

// A network can learn from every channel.
void require_numbers_there(const ChannelFacts& facts, const std::string& name, const std::string& option) {
  for (std::size_t c = 0; c < facts.count.size(); ++c)
    if (facts.count[c] == 0)
      throw DataError(
          fmt::format("every number of {}'{}' is missing in the rows that train; correct its attributes, "
                      "name others with {}, or read numbers as they are stored (--packing ignore)",
                      facts.count.size() > 1 ? fmt::format("channel {} of ", c) : "", name, option));
}

// A network learns from labels that differ. A channel of several may be the same everywhere.
void require_labels_that_vary(const DraftSplit& train, const ChannelFacts& facts) {
  if (train.shape.samples < 2 || facts.least != facts.most) return;
  throw DataError(fmt::format(
      "the labels '{}' are all {:g}{} in the rows that train, so there is nothing to learn from them; name "
      "others with --labels",
      train.spec.labels_text(), facts.least.front(), facts.least.size() > 1 ? " in their first channel" : ""));
}

// The units of samples and labels. `parts` are all rows, of training data first. Logarithms are for numbers that have
// one in all of them. Adds reasons.
std::string normalisation(DatasetGuess& guess, const DraftSplit& train, const std::vector<DraftSplit>& parts,
                          Comm& world) {
  constexpr Index kFewRows = 10;
  const bool few = train.shape.samples < kFewRows;
  const auto facts_in = [&](const DraftSplit& part, NumbersOf of) {
    return channel_facts(numbers_of(part.spec, part.shape, of), false, world);
  };
  const ChannelFacts samples = facts_in(train, NumbersOf::samples);
  require_numbers_there(samples, guess.samples, "--samples");
  require_digits(train.spec, train.shape, NumbersOf::samples, samples, world);
  bool logarithm = over_orders(samples);
  for (const DraftSplit& part : parts)
    if (logarithm) logarithm = facts_in(part, NumbersOf::samples).least_of_all() >= 0;
  const std::string text = units("sample", logarithm ? "log1p_" : "", samples, few,
                                 [&] { return facts_in(parts.front(), NumbersOf::samples); });
  if (guess.kind != LabelKind::numbers) return text;
  const ChannelFacts labels = facts_in(train, NumbersOf::labels);
  require_digits(train.spec, train.shape, NumbersOf::labels, labels, world);
  require_labels_that_vary(train, labels);
  std::optional<std::string> numbered;
  collective_try(world, [&] { numbered = like_identifiers(train.spec, train.shape, NumbersOf::labels, labels); });
  if (numbered) guess.reasons.push_back(*numbered + "; name others with --labels");
  return text + units("label", "", labels, few, [&] { return facts_in(parts.front(), NumbersOf::labels); });
}

// How many numbers are missing, in how many rows, where they are to be filled; "" where none is.
std::string missing_text(std::vector<DraftSplit>& parts, Comm& world) {
  if (std::ranges::none_of(parts, [](const DraftSplit& part) { return part.lacking > 0; })) return "";
  double missing = 0, all = 0;
  Index lacking = 0, rows = 0;
  for (DraftSplit& part : parts) {
    part.spec.not_finite = NotFiniteRule::fill;  // one rule is for all
    const ChannelFacts facts = channel_facts(numbers_of(part.spec, part.shape, NumbersOf::samples), false, world);
    missing += facts.missing();
    all += facts.of_all_channels();
    lacking += part.lacking;
    rows += part.shape.samples;
  }
  return fmt::format("{:.0f} of {:.0f} numbers missing, in {} of {} rows: the network sees the mean of what is there",
                     missing, all, lacking, rows);
}

// A run would refuse files that name the same rows twice.
void require_once(const std::vector<DraftSplit>& parts, Comm& world) {
  DatasetSpec train = parts.front().spec, validation = parts.back().spec;
  if (parts.size() == 1) train.choice.part = Subset::train, validation.choice.part = Subset::validation;
  require_distinct_rows(
      {{{train, parts.front().shape}, Subset::train}, {{validation, parts.back().shape}, Subset::validation}}, world);
}

// Channels that could be taken for positions are named, so that nobody asks about them again.
std::string channels_line(const DatasetGuess& guess, const Shape& sample) {
  Config config;
  config.data.train.axes = guess.axes;
  if (sample_warnings(config, sample).empty()) return "";
  return fmt::format("channels = {}  # the last axis\n", sample.channels);
}

// How the samples lie in the files, as keys of [data].
std::string layout_lines(const DatasetGuess& guess, const Shape& sample) {
  std::string text;
  if (guess.rows != RowsBy::axis)
    text += fmt::format("rows = \"{}\"\n", guess.rows == RowsBy::files ? "files" : "groups");
  if (!guess.groups.empty()) text += "groups = " + quoted(guess.groups) + "\n";
  if (guess.packing == PackingRule::ignore) text += "packing = \"ignore\"  # numbers as they are stored\n";
  if (!guess.axes.empty()) text += "axes = " + quoted(guess.axes) + "\n";
  return text + channels_line(guess, sample);
}

// Which rows train and which validate. `parts`: training, and perhaps validation.
std::string split_lines(const DatasetGuess& guess, const std::vector<DraftSplit>& parts) {
  const auto names = [&](const std::string& part, const std::string& groups, const DatasetSpec& spec) {
    return fmt::format("{} = {{ {}samples = {}, labels = {} }}\n", part,
                       groups.empty() ? "" : "groups = " + quoted(groups) + ", ", quoted(spec.samples),
                       spec.more_labels.empty() ? quoted(spec.labels) : write(spec.label_names(), {}));
  };
  const std::string train = names("train", "", parts.front().spec);
  if (parts.size() > 1) return train + names("validation", guess.validation_groups, parts.back().spec);
  if (!guess.split_column.empty())
    return train +
           fmt::format("split = {{ column = {}{} }}\n", quoted(guess.split_column),
                       guess.split_validation.empty() ? "" : ", validation = " + write_values(guess.split_validation));
  if (const SplitArrays& arrays = guess.split_arrays; !arrays.empty())
    return train + fmt::format("split = {{ by = \"arrays\", train = {}, validation = {}{} }}\n", quoted(arrays.train),
                               quoted(arrays.validation), arrays.test.empty() ? "" : ", test = " + quoted(arrays.test));
  if (!guess.group_column.empty())
    return train + fmt::format(
                       "split = {{ by = \"groups\", column = {}, validation = {} }}  # rows of one value on one "
                       "side; test = 0.1 keeps some apart\n",
                       quoted(guess.group_column), kValidation);
  return train +
         fmt::format(
             "split = {{ by = \"rows\", validation = {} }}  # a fifth of the rows, chosen at random, validates\n",
             kValidation);
}

// What attributes of all files say, and whether it is applied, of all parts once. Adds reasons.
void tell_attributes(DatasetGuess& guess, const std::vector<DraftSplit>& parts, Comm& world) {
  for (const DraftSplit& part : parts) {
    for (const std::string& line : packing_lines(part.spec, world)) add_once(guess.reasons, line);
    std::vector<std::string> names = part.spec.sample_names();
    std::ranges::copy(part.spec.label_names(), std::back_inserter(names));
    const std::vector<PackingCount> counts = count_packings(part.spec, names, world);
    for (std::size_t i = 0; i < names.size(); ++i)
      for (const std::string& text : not_applied_texts(names[i], counts[i])) add_once(guess.reasons, text);
  }
}

void describe_data(Draft& draft, const InitOptions& options, Comm& world) {
  const DatasetGuess& guess = draft.guess;
  std::vector<DraftSplit> parts{part_of(options, guess, Subset::train, world)};
  const bool given = !guess.validation_samples.empty();
  if (given) parts.push_back(part_of(options, guess, Subset::validation, world));
  require_once(parts, world);
  tell_attributes(draft.guess, parts, world);
  draft.shape = parts.front().shape;
  Index skipped = 0, rows = 0;
  for (const DraftSplit& part : parts) {
    skipped += std::ssize(part.shape.skipped);
    rows += part.shape.samples + std::ssize(part.shape.skipped);
  }
  if (skipped > 0)
    draft.guess.reasons.push_back(fmt::format("{} of {} rows hold NaN or infinity and are left out", skipped, rows));
  const std::string missing = missing_text(parts, world);
  if (!missing.empty()) draft.guess.reasons.push_back(missing);
  const DraftSplit train = given ? parts.front() : training_rows(parts.front(), guess, world);
  if (!train.shape.unused.empty()) draft.guess.reasons.push_back(train.shape.unused);
  std::vector<std::string> files;
  for (const std::string& file : options.files) files.push_back(quoted(file));
  std::string& text = draft.data;
  for (const std::string& reason : guess.reasons) text += "# " + in_one_line(reason) + "\n";
  text += fmt::format("# {} samples of {}\n[data]\nfiles = [{}]\n", draft.shape.samples, to_string(draft.shape.sample),
                      fmt::join(files, ", "));
  text += layout_lines(guess, draft.shape.sample);
  text += split_lines(guess, parts);
  if (!missing.empty())
    text += "not_finite = \"fill\"  # of missing numbers; mask = true adds a channel that says where they are\n";
  else if (skipped > 0)
    text += fmt::format("not_finite = \"skip\"  # {} rows hold NaN or infinity\n", skipped);
  text += normalisation(draft.guess, train, parts, world);
  if (guess.kind == LabelKind::classes) draft.rare = some_are_rare(class_counts(train.spec, train.shape, world));
  if (guess.kind == LabelKind::probabilities) {
    const Numbers labels = numbers_of(train.spec, train.shape, NumbersOf::labels);
    draft.rare = !rarely_yes(channel_facts(labels, false, world)).empty();
  }
  if (draft.rare && draft.shape.label.axes > 0) {
    std::string axes;
    for (int axis = 0; axis < draft.shape.label.axes; ++axis) axes += (axis > 0 ? ", " : "") + std::to_string(axis);
    text +=
        fmt::format("augment = {{ flip = [{}] }}  # remove it where left and right, or up and down, matter\n", axes);
  }
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
  const Index outputs = draft.guess.outputs;
  draft.loss = draft.guess.kind == LabelKind::classes         ? "\"cross_entropy\""
               : draft.guess.kind == LabelKind::probabilities ? "\"binary_cross_entropy\""
                                                              : "\"mse\"";
  if (draft.rare && draft.guess.kind == LabelKind::probabilities)
    draft.loss = "[\"binary_cross_entropy\", \"dice\"]  # some outputs are rarely a yes";
  else if (draft.rare && draft.shape.label.axes > 0)
    draft.loss = "[\"cross_entropy\", \"dice\"]  # some classes are rare";
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
    const std::vector<int> kernel(static_cast<std::size_t>(sample.axes), 3);
    const std::string conv = fmt::format(
        "[[model.layers]]\ntype = \"conv\"\nkernel = [{}]\npadding = \"same\"\nfilters = ", fmt::join(kernel, ", "));
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
    resolve_axes(network.layers, draft.shape.sample.axes);
    MemoryCount memory(*backend, config.training, 0);
    if (static_cast<double>(memory.add(network).all()) < kMemoryShare * host_memory()) return;
  }
}

// A configuration is UTF-8, and names what is in the files by the same bytes.
void require_quotable(const std::vector<std::string>& files, const DatasetGuess& guess) {
  for (const std::string& file : files)
    if (!may_be_quoted(file))
      throw DataError(in_one_line(file) + ": the file's name is not UTF-8, as configurations are; rename it");
  const std::string path = files.front() + ": ";
  std::vector<std::string> names{guess.samples,
                                 guess.labels,
                                 guess.validation_samples,
                                 guess.validation_labels,
                                 guess.split_column,
                                 guess.group_column,
                                 guess.groups,
                                 guess.validation_groups,
                                 guess.split_arrays.train,
                                 guess.split_arrays.validation,
                                 guess.split_arrays.test};
  names.insert(names.end(), guess.more_labels.begin(), guess.more_labels.end());
  for (const std::string& name : names)
    if (!may_be_quoted(name))
      throw DataError(path + "the name '" + in_one_line(name) + "' is not UTF-8, as configurations are; rename it");
  const auto require_words = [&](const std::string& name, const std::vector<std::string>& words) {
    for (const std::string& word : words)
      if (!may_be_quoted(word))
        throw DataError(
            fmt::format("{}'{}' holds words that are not UTF-8, such as \"{}\", and configurations name words "
                        "in UTF-8; store them so",
                        path, name, in_one_line(word)));
  };
  require_words(guess.labels, guess.class_values);
  require_words(guess.split_column, guess.split_validation);
}

// What `mrmf data` would say of the configuration, with what was said already left out. DataError where it, and
// training, would refuse the data: nothing is written then. Collective; the
// lines are the root's.
std::vector<std::string> advice_on(const Config& config, const std::vector<std::string>& said, Comm& world) {
  DataFound found = survey(config, false, world);
  for (const SplitFound& split : found.splits) require_same_names(found.splits.front().shape, split.shape, split.part);
  std::erase_if(found.advice, [&](const std::string& line) {
    return std::ranges::any_of(said, [&](const std::string& reason) { return reason.starts_with(line); });
  });
  return found.advice;
}

void write_config(const InitOptions& options, Comm& world) {
  Draft draft;
  const std::vector<std::string> files = expand_patterns(options.files);
  collective_try(world, [&] {
    if (is_pattern(files.front())) throw DataError(no_match_text(files.front()));
    if (world.root()) {
      for (const std::string& file : files) Hdf5File::open(file, Comm::self());  // the input's mistake is told first
      require_output(options.output, options.replace, all_inputs(options.output, files));
    }
    draft.guess = guess_datasets(files, options.names);
    require_quotable(files, draft.guess);
  });
  describe_data(draft, options, world);
  describe_model(draft);
  choose_batch(draft, options, world);
  const std::string text = draft.text(options);
  Config config = parse_config(text, options.output, {});
  const std::vector<std::string> advice = advice_on(config, draft.guess.reasons, world);
  resolve_axes(config.model.layers, draft.shape.sample.axes);
  resolve_labels(config, draft.shape, {{1, 1, 1}});  // what was guessed must fit
  collective_try(world, [&] {
    if (!world.root()) return;
    write_file(options.output, text, options.replace);
    for (const std::string& reason : draft.guess.reasons) std::cout << in_one_line(reason) << "\n";
    for (const std::string& line : advice) std::cout << "advice: " << in_one_line(line) << "\n";
    std::cout << fmt::format("{0}: written; see what it comes to with `mrmf plan {0}`, train with `mrmf train {0}`\n",
                             options.output);
  });
}

}  // namespace

void add_init(Subcommands& commands) {
  CLI::App* init =
      commands.app.add_subcommand("init", "write a configuration for files of samples and labels, ready to train");
  auto options = std::make_shared<InitOptions>();
  init->add_option("files", options->files, "HDF5 files, or patterns; the first says what is what")->required();
  init->add_option("--samples", options->names.samples,
                   "data set of the samples, if not the one with the largest rows");
  init->add_option("--labels", options->names.labels, "data set of the labels, if not another one with as many rows");
  init->add_option("--axes", options->names.axes,
                   "axes of the samples, such as \"n c y x\", if they are guessed wrongly");
  add_choice(*init, "--packing", options->names.packing, choices<PackingRule>(),
             "scales, offsets and missing numbers of netCDF and CF: apply or ignore them");
  init->add_option("--output,-o", options->output, "configuration to write")->capture_default_str();
  init->add_option("--folder", options->folder,
                   "run.folder of the configuration (runs/first, or, of another output NAME.toml, runs/NAME)");
  add_overwrite(*init, options->replace);
  add_example(*init, "mrmf init mydata.h5 -o first.toml");
  commands.run(*init, [=, &world = commands.world] { write_config(*options, world); });
}

}  // namespace mrmf
