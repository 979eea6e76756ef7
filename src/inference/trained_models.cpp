// Opening trained models and the data that they are run on, and running them batch by batch.
#include "src/inference/trained_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <ostream>

#include "io/files/file_names.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split.hpp"
#include "kernels/errors.hpp"
#include "layers/model.hpp"
#include "src/data/classes.hpp"
#include "src/data/data.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/data/sliding_window_inference.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

DatasetSpec dataset(const ModelOptions& options, const DataConfig& data, LabelUse labels) {
  if (options.split == Subset::test && data.test.samples.empty() && options.samples.empty())
    throw ConfigError("--split test: " + options.models.front() +
                      " has no test split; train with data.split.test = 0.1 or data.test.samples, or name data that "
                      "was kept apart with --files");
  DatasetSpec spec = options.split == Subset::train                                ? data.train
                     : options.split == Subset::test && !data.test.samples.empty() ? data.test
                                                                                   : data.validation;
  if (!options.files.empty()) spec.files = expand_patterns(options.files);
  if (!options.samples.empty()) spec.name_samples(options.samples);
  if (!options.groups.empty() && spec.rows != RowsBy::groups)
    throw ConfigError("--groups " + options.groups +
                      ": the samples of the run are no groups of its files (data.rows); leave it out");
  if (!options.groups.empty()) spec.groups = options.groups;
  if (!options.files.empty() || !options.samples.empty() || !options.groups.empty())
    spec.choice = {};  // the run's split is of its own data
  if (!options.labels.empty()) spec.name_labels(options.labels);
  if (labels == LabelUse::unread) spec.name_labels({});
  if (options.missing) spec.missing = *options.missing;
  if (options.not_finite) spec.not_finite = *options.not_finite;
  if (options.packing) spec.packing = *options.packing;
  // Splits often have the same size, so the run's labels would fit the wrong samples.
  if (labels == LabelUse::needed && !options.samples.empty() && options.labels.empty())
    throw ConfigError("evaluate --samples " + options.samples.front() +
                      ": name the labels that belong to them, --labels NAME");
  return spec;
}

// Checks the output before any work: it may not be one of the command's inputs.
void require_free(const ModelOptions& options, const DatasetSpec& spec, const std::vector<ModelChoice>& choices) {
  if (options.output.empty()) return;
  for (const std::string& file : spec.files)
    if (std::error_code none; std::filesystem::equivalent(options.output, file, none))
      throw ConfigError(options.output +
                        ": is read by this very command; name another output, and with --append NAME the data sets of "
                        "the sample files (ids, coordinates, masks) that are to be copied beside the predictions");
  std::vector<std::string> names = spec.sample_names();
  std::ranges::copy(spec.label_names(), std::back_inserter(names));
  std::ranges::copy(options.append, std::back_inserter(names));
  std::ranges::copy(spec.choice.columns(), std::back_inserter(names));
  std::vector<std::string> inputs = RowSources(spec, nullptr, names, {}).all_inputs(options.output);
  for (const ModelChoice& choice : choices)
    for (const std::string& input : choice.inputs()) inputs.push_back(input);
  require_output(options.output, options.replace, inputs);
}

// A mean over runs is for samples that none of them was trained on.
void tell_other_data(const ModelOptions& options, const std::vector<ModelChoice>& choices, std::ostream& told) {
  if (!options.files.empty() || !options.samples.empty() || !options.groups.empty()) return;
  const DatasetSpec first = dataset(options, choices.front().config.data, LabelUse::unread);
  for (std::size_t m = 1; m < choices.size(); ++m) {
    const DatasetSpec here = dataset(options, choices[m].config.data, LabelUse::unread);
    if (here.files == first.files && here.samples == first.samples && here.more_samples == first.more_samples &&
        here.groups == first.groups) {
      RowChoice choice = here.choice;
      if (options.split == Subset::test) choice.fold = first.choice.fold;  // all folds have one test split
      if (choice == first.choice) continue;
    }
    told << fmt::format(
        "{}: its own data are others than those of {}, which are used for all; it may have been "
        "trained on some of them\n",
        options.models[m], options.models.front());
  }
}

// Says which samples that were named on the command line trained a model, where validation rows are meant.
void tell_training_rows(const ModelOptions& options, const std::vector<ModelChoice>& choices, const Trained& t,
                        std::ostream& told, Comm& world) {
  if ((options.files.empty() && options.samples.empty() && options.groups.empty()) || options.split == Subset::train)
    return;
  for (const ModelChoice& choice : choices)
    if (const std::string text = training_rows_text(choice, t.spec, t.shape, world); !text.empty() && world.root())
      told << text << "\n";
}

// Compares the samples with those that the model was trained on. DataError where it can take no such samples, whatever
// their size.
void compare_samples(const ModelChoice& choice, const Trained& t, std::ostream& told, Comm& world) {
  const std::string trained = read_model_facts(choice.file, world).sample;
  if (trained.empty()) return;  // a file of an earlier version
  const std::string at =
      t.resolution == Extent{1, 1, 1} ? "" : " at resolution " + resolution_text(t.resolution, t.shape.sample.axes);
  const auto axes_and_channels = [](const std::string& shape) {
    return std::pair(std::ranges::count(shape, 'x'), shape.substr(shape.rfind('x') + 1));
  };
  if (const std::string stored = to_string(t.shape.sample); axes_and_channels(stored) != axes_and_channels(trained))
    throw DataError(
        fmt::format("the model takes samples of {}{}; those of {} (data set '{}') are {}, of which the last number is "
                    "channels; give it data of the kind that it was trained on",
                    trained, at, t.spec.files.front(), t.spec.samples, stored));
  const std::string here = to_string(network_input(t.config, t.shape.sample, t.resolution));
  if (here != trained && world.root())
    told << fmt::format("samples are {}{}, the model was trained on {}\n", here, at, trained);
}

void open_store(Trained& t, const ChannelMap& samples, LabelUse labels, Comm& world) {
  const Index batch = t.windows() ? 1 : std::max<Index>(1, t.config.training.batch);
  OrderSettings order = order_settings(t.config.data, t.shape.samples, world.size(), world.rank());
  order.shards = order.ranks;
  order.shuffle = false;
  const MemoryBudget memory = budget_memory(t.config.data, {{t.shape, order, {{t.resolution, batch}}}}, world,
                                            ranks_of_same(host_name(), world).size());
  StoreSettings settings = memory.stores.front();
  settings.sample_units = samples;
  if (labels == LabelUse::needed) settings.label_units = label_map(t.config, t.shape.label);
  t.store = std::make_unique<SampleStore>(t.spec, t.shape, visited_rows(order), world, settings);
  t.store->make_ready(t.resolution, batch);
}

// The units of labels that are not read are those of the network's outputs.
ChannelMap label_units(const Trained& t, const TrainedModel& model, LabelUse labels) {
  return labels == LabelUse::needed ? label_map(model.config, t.shape.label)
                                    : output_map(model.config, model.model->network().output());
}

TrainedModel open_model(const Trained& t, const ModelChoice& choice, std::ostream& told, Comm& world) {
  TrainedModel one{.name = choice.run.empty() ? choice.file : choice.run,
                   .config = choice.config,
                   .samples = {},
                   .labels = {},
                   .model = nullptr};
  ModelSettings settings;
  settings.network = network_for(one.config, t.resolution, network_input(t.config, t.shape.sample, t.resolution),
                                 std::max<Index>(1, t.config.training.batch));
  one.model = std::make_unique<Model>(*t.backend, settings);
  const Checksum checksum = load_model(*t.backend, choice.file, *one.model, world);
  require_finite(*t.backend, *one.model, choice.file);
  if (world.root() && !choice.text.empty()) told << choice.text << "\n";
  if (world.root() && checksum == Checksum::missing)
    told << choice.file << ": written by an earlier version, without a checksum: damage to it would not be seen\n";
  tell_epoch(choice.file, told, world);
  return one;
}

}  // namespace

Trained open_trained(const ModelOptions& options, LabelUse labels, Comm& world) {
  std::vector<ModelChoice> choices;
  for (const std::string& model : options.models) choices.push_back(choose_model(model, options.wanted, world));
  require_together(options, choices, world);
  const ModelChoice& choice = choices.front();
  Trained t;
  t.config = choice.config;
  t.resolution = choice.resolution;
  t.spec = dataset(options, t.config.data, labels);
  if (options.files.empty()) find_from_run(t.spec.files, choice);
  collective_try(world, [&] {
    if (world.root()) require_free(options, t.spec, choices);
  });
  t.backend = make_inference_backend(t.config.run, world);
  t.shape = inspect_dataset(t.spec, world);
  std::ostream nobody(nullptr);
  std::ostream& told = options.notes != nullptr ? *options.notes : nobody;
  compare_samples(choice, t, told, world);  // with several models, their samples are alike
  for (const ModelChoice& one : choices) require_trained_units(one.config.data, {t.spec, t.shape});
  require_channels(t.config.data, t.shape.sample);
  if (options.duplicates.value_or(t.config.data.duplicates) == DuplicateRule::refuse)
    require_distinct_rows({{{t.spec, t.shape}, Subset::all}}, world);
  require_same_data(t.spec, &t.shape, world);
  if (labels == LabelUse::needed) resolve_labels(t.config, t.shape, {t.resolution});
  for (const ModelChoice& one : choices) require_same_names(one.config, t.shape);
  t.spec.form = t.config.data.train.form;
  std::vector<ChannelMap> units;
  for (const ModelChoice& one : choices) {
    Config config = one.config;
    config.data.train.not_finite = t.spec.not_finite;
    units.push_back(sample_map(config, t.shape.sample));
  }
  const auto other = std::ranges::find_if_not(units, [&](const ChannelMap& map) { return map == units.front(); });
  const bool shared = other == units.end();
  if (!shared && t.spec.layout == SampleLayout::reinterpret)  // units are of the stored channels
    refuse_together(options.models.front(), options.models[static_cast<std::size_t>(other - units.begin())],
                    "with data.layout = \"reinterpret\" their samples must be normalised by the same numbers");
  open_store(t, shared ? units.front() : ChannelMap{}, labels, world);
  for (std::size_t m = 0; m < choices.size(); ++m) {
    t.models.push_back(open_model(t, choices[m], told, world));
    t.models.back().labels = label_units(t, t.models.back(), labels);
    if (!shared) t.models.back().samples = units[m];
  }
  for (const TrainedModel& one : t.models)
    if (const Shape output = one.model->network().output(), first = t.models.front().model->network().output();
        !(output == first))
      refuse_together(t.models.front().name, one.name,
                      fmt::format("the output is {} here and {} there", to_string(first), to_string(output)));
  tell_training_rows(options, choices, t, told, world);
  if (!world.root()) return t;
  for (const std::string& line : skipped_lines(t.spec, t.shape)) told << line << "\n";
  tell_other_data(options, choices, told);
  return t;
}

namespace {

// Checks one batch. The message names the first bad row, as its file counts it.
void require_finite(const Trained& t, const BatchResult& batch) {
  const auto bad = std::ranges::find_if_not(batch.outputs, [](float y) { return std::isfinite(y); });
  if (bad == batch.outputs.end()) return;
  const Index sample = batch.first + (bad - batch.outputs.begin()) / t.output().per_sample();
  const RowRun at = StoredRows(t.shape).at(sample);
  const auto open = RowSources(t.spec, t.shape, {t.spec.samples}).open(at.file);
  throw FaultError(
      fmt::format("{}: the model's output for {} is {}; its samples are too large for it, or it was not trained well",
                  batch.by.name, open->front()->row_text(at.rows.first), std::isnan(*bad) ? "NaN" : "infinite"));
}

// All stored numbers are finite, so that those which are not come from a logarithm.
void require_units(const Trained& t, const TrainedModel& by, std::span<const std::int64_t> ids,
                   const Feed::HostBatch& host) {
  const auto check = [&](bool log1p, ConstSpan values, NumbersOf of) {
    if (!log1p) return;
    const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
    if (bad == values.end()) return;
    const auto row = static_cast<std::size_t>((bad - values.begin()) / (std::ssize(values) / std::ssize(ids)));
    refuse_logarithm({t.spec, t.shape, of, ids[row]});
  };
  check(by.config.data.normalise_samples.log1p, host.x, NumbersOf::samples);
  check(by.config.data.normalise_labels.log1p, host.targets, NumbersOf::labels);
}

/// Runs every model on batches of samples, which are read once.
class BatchRunner {
 public:
  BatchRunner(Trained& t, const Passes& passes)
      : t_(t),
        passes_(passes),
        sample_(t.store->sample(t.resolution)),
        target_(t.store->target(t.resolution)),
        sum_(t.backend->allocate(1)) {
    if (t.windows()) {
      for (const TrainedModel& one : t.models)
        windowed_.push_back(std::make_unique<WindowedModel>(*t.backend, *one.model, t.config, t.resolution, sample_));
      return;
    }
    feed_ = t.backend->feed(sample_.with_rows(t.models.front().model->max_rows()), target_.per_sample());
    const Shape output = t.output().with_rows(t.models.front().model->max_rows());
    if (target_.channels > 0) loss_ = t.backend->loss(t.config.training.loss, output, t.target_channels());
  }

  void run(std::span<const std::int64_t> ids, const std::function<void(const BatchResult&)>& visit) {
    const Shape in = sample_.with_rows(std::ssize(ids));
    samples_.resize(static_cast<std::size_t>(in.count()));
    labels_.resize(static_cast<std::size_t>(target_.with_rows(in.n).count()));
    t_.store->gather(t_.resolution, ids, {in, samples_}, {target_.with_rows(in.n), labels_});
    if (t_.windows()) return run_windows(ids, visit);
    for (std::size_t m = 0; m < t_.models.size(); ++m) {
      const Feed::HostBatch host = feed_->host(in.n);
      std::ranges::copy(samples_, host.x.begin());
      std::ranges::copy(labels_, host.targets.begin());
      apply(t_.models[m].samples, 0, host.x.first(samples_.size()));
      require_units(t_, t_.models[m], ids, {host.x.first(samples_.size()), host.targets.first(labels_.size())});
      const Feed::Batch fed = feed_->submit(in.n);
      for (int pass = 0; pass < passes_.of_each(); ++pass) {
        const StepContext step{.training = false,
                               .seed = mix(passes_.seed, m),
                               .updates_done = static_cast<std::uint64_t>(pass),
                               .ids = ids};
        visit(evaluated(t_.models[m], step, fed));
      }
    }
  }

 private:
  // One whole sample.
  void run_windows(std::span<const std::int64_t> ids, const std::function<void(const BatchResult&)>& visit) {
    std::vector<float> x(samples_.size());
    for (std::size_t m = 0; m < t_.models.size(); ++m) {
      const TrainedModel& by = t_.models[m];
      x = samples_;
      apply(by.samples, 0, x);
      require_units(t_, by, ids, {x, labels_});
      for (int pass = 0; pass < passes_.of_each(); ++pass) {
        const StepContext step{.training = false,
                               .seed = mix(passes_.seed, m, static_cast<std::uint64_t>(ids.front())),
                               .updates_done = static_cast<std::uint64_t>(pass)};
        const ConstSpan outputs = windowed_[m]->run(x, step, [&](const StepContext& of, ConstTensor part) {
          return passes_.dropout > 0 ? forward_with_dropout(*by.model, of, part) : by.model->forward(of, part);
        });
        const double loss = target_.channels > 0 ? windowed_[m]->loss(outputs, labels_) : 0;
        const BatchResult result{by, ids.front(), 1, samples_, outputs, labels_, loss};
        require_finite(t_, result);
        visit(result);
      }
    }
  }

  BatchResult evaluated(const TrainedModel& by, const StepContext& step, const Feed::Batch& fed) {
    t_.backend->begin(step);
    const ConstTensor y =
        passes_.dropout > 0 ? forward_with_dropout(*by.model, step, fed.x) : by.model->forward(step, fed.x);
    float value = 0;
    if (loss_) {
      loss_->run(step, y, fed.targets, {}, sum_.span());
      t_.backend->read(sum_.span(), {&value, 1});
    }
    outputs_.resize(static_cast<std::size_t>(y.shape.count()));
    t_.backend->read_activation(y, outputs_);
    const BatchResult result{by, step.ids.front(), std::ssize(step.ids), samples_, outputs_, labels_, value};
    require_finite(t_, result);
    return result;
  }

  Trained& t_;
  Passes passes_;
  Shape sample_, target_;
  std::unique_ptr<Feed> feed_;
  Arena sum_;
  std::unique_ptr<LossOp> loss_;
  std::vector<std::unique_ptr<WindowedModel>> windowed_;  // one for each model; none: samples are taken whole
  std::vector<float> samples_, labels_, outputs_;
};

}  // namespace

void for_each_batch(Trained& t, const Passes& passes, const std::function<void(const BatchResult&)>& visit) {
  BatchRunner runner(t, passes);
  const EpochOrder order = in_order(t.store->owned(), t.windows() ? 1 : t.models.front().model->max_rows());
  t.store->expect(t.resolution, order);
  for (const Range& rows : order.steps)
    runner.run(std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count)),
               visit);
}

}  // namespace mrmf
