// `mrmf evaluate` and `mrmf predict`: a trained model, of a run or in a file, on any data of the same kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "io/channel_map.hpp"
#include "io/file_patterns.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "io/stored_rows.hpp"
#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/model_choice.hpp"
#include "src/cli/scores.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/data/normalise.hpp"
#include "src/plan/labels.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

/// The split whose data set names are used.
enum class SplitName { train, validation };

struct ModelOptions {
  std::string model;               ///< a run's folder, or a model file
  std::vector<std::string> files;  ///< replace the run's own data
  SplitName split = SplitName::validation;
  std::vector<std::string> samples;    ///< data set names if not the run's
  std::string labels;                  ///< the same; predict needs none
  std::optional<MissingRule> missing;  ///< if other than the run's data.missing
  std::string output;                  ///< predict: HDF5 file to write
  Replace replace = Replace::nothing;
  WantedModel wanted{};
  bool json = false;  ///< evaluate: print one JSON object
};

enum class Labels { needed, unread };

/// A trained model and this rank's rows of a data set.
struct Trained {
  Config config;
  std::unique_ptr<Backend> backend;
  DatasetSpec spec;
  Extent resolution{1, 1, 1};
  DatasetShape shape;
  std::unique_ptr<SampleStore> store;
  std::unique_ptr<Model> model;

  Shape output() const { return model->network().output(); }
  Index target_channels() const { return mrmf::target_channels(store->target(resolution), output()); }
};

DatasetSpec dataset(const ModelOptions& options, const DataConfig& data, Labels labels) {
  DatasetSpec spec = options.split == SplitName::train ? data.train : data.validation;
  if (!options.files.empty()) spec.files = expand_patterns(options.files);
  if (!options.samples.empty()) {
    spec.samples = options.samples.front();
    spec.more_samples.assign(options.samples.begin() + 1, options.samples.end());
  }
  if (!options.files.empty() || !options.samples.empty()) spec.choice = {};  // the run's split is of its own data
  if (!options.labels.empty()) spec.labels = options.labels;
  if (labels == Labels::unread) spec.labels.clear();
  if (options.missing) spec.missing = *options.missing;
  // Splits often have the same size, so the run's labels would fit the wrong samples.
  if (labels == Labels::needed && !options.samples.empty() && options.labels.empty())
    throw ConfigError("evaluate --samples " + options.samples.front() +
                      ": name the labels that belong to them, --labels NAME");
  return spec;
}

// Checks the output before any work: it may not be one of the command's inputs.
void require_free(const ModelOptions& options, const DatasetSpec& spec, const ModelChoice& choice) {
  if (options.output.empty()) return;
  std::vector<std::string> inputs = choice.inputs();
  inputs.insert(inputs.end(), spec.files.begin(), spec.files.end());
  require_output(options.output, options.replace, inputs);
}

Trained open_trained(const ModelOptions& options, Labels labels, Comm& world) {
  Trained t;
  const ModelChoice choice = choose_model(options.model, options.wanted, world);
  t.config = choice.config;
  t.resolution = choice.resolution;
  t.spec = dataset(options, t.config.data, labels);
  if (options.files.empty()) find_from_run(t.spec.files, choice);
  collective_try(world, [&] {
    if (world.root()) require_free(options, t.spec, choice);
  });
  t.backend = make_backend(t.config.run, world);
  t.shape = inspect_dataset(t.spec, world);
  require_channels(t.config.data, t.shape.sample);
  require_same_data(t.spec, world);
  if (labels == Labels::needed) settle_labels(t.config, t.shape, {t.resolution});
  t.spec.form = t.config.data.train.form;
  const Index batch = std::max<Index>(1, t.config.training.batch);
  OrderSettings order = order_settings(t.config.data, t.shape.samples, world.size(), world.rank());
  order.shards = order.ranks;
  order.shuffle = false;
  const MemoryPlan memory = plan_memory(t.config.data, {{t.shape, order, {{t.resolution, batch}}}}, world,
                                        ranks_of_same(host_name(), world).size());
  StoreSettings settings_of_store = memory.stores.front();
  settings_of_store.samples = sample_map(t.config, t.shape.sample);
  if (labels == Labels::needed) settings_of_store.labels = label_map(t.config, t.shape.label);
  t.store = std::make_unique<SampleStore>(t.spec, t.shape, visited_rows(order), world, settings_of_store);
  t.store->require(t.resolution, batch);
  ModelSettings settings;
  settings.network = {coarse_shape(t.shape.sample, t.resolution), batch, t.config.model.layers, t.config.model.bottom};
  t.model = std::make_unique<Model>(*t.backend, settings);
  const Checksum checksum = load_model(*t.backend, choice.file, *t.model, world);
  require_finite(*t.backend, *t.model, choice.file);
  std::ostream& told = options.json ? std::cerr : std::cout;
  if (world.root() && !choice.text.empty()) told << choice.text << "\n";
  for (const std::string& line : skipped_lines(t.spec, t.shape))
    if (world.root()) told << line << "\n";
  if (world.root() && checksum == Checksum::missing)
    told << choice.file << ": written by an earlier version, without a checksum: damage to it would not be seen\n";
  tell_epoch(choice.file, told, world);
  return t;
}

// Checks one batch. The message names the first bad row.
void require_finite(const Trained& t, Index first, ConstSpan outputs) {
  const auto bad = std::ranges::find_if_not(outputs, [](float y) { return std::isfinite(y); });
  if (bad == outputs.end()) return;
  const Index row = first + (bad - outputs.begin()) / t.model->network().output().per_sample();
  throw FaultError(
      fmt::format("the model's output for row {} of data set '{}' is {}; its samples are too large for it, "
                  "or it was not trained well",
                  row, t.spec.samples, std::isnan(*bad) ? "NaN" : "infinite"));
}

/// A batch of this rank's rows, in the host's memory.
struct Evaluated {
  Index first = 0;  ///< global row
  ConstSpan outputs, labels;
  double loss = 0;  ///< the sum over the rows; 0 without labels
};

/// Calls visit(batch) for every batch of this rank's rows.
void for_each_batch(Trained& t, const std::function<void(const Evaluated&)>& visit) {
  const Range owned = t.store->owned();
  const Shape sample = t.store->sample(t.resolution), target = t.store->target(t.resolution);
  const Index batch = t.model->max_rows();
  const std::unique_ptr<Feed> feed = t.backend->feed(sample.rows(batch), target.per_sample());
  const bool labelled = target.channels > 0;
  const auto loss =
      labelled ? t.backend->loss(t.config.training.loss, t.output().rows(batch), t.target_channels()) : nullptr;
  Arena sum = t.backend->allocate(1);
  std::vector<float> outputs;
  const EpochOrder order = in_order(owned, batch);
  t.store->expect(t.resolution, order);
  for (const Range& rows : order.steps) {
    const auto ids =
        std::span(order.ids).subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
    const Shape in = sample.rows(rows.count);
    const Feed::HostBatch host = feed->host(in.n);
    t.store->gather(t.resolution, ids, {in, host.x}, {target.rows(in.n), host.targets});
    const std::vector<float> labels(host.targets.begin(), host.targets.end());
    const Step step{.training = false};
    t.backend->begin(step);
    const Feed::Batch fed = feed->submit(in.n);
    const ConstTensor y = t.model->forward(step, fed.x);
    float value = 0;
    if (loss) {
      loss->run(step, y, fed.targets, {}, sum.span());
      t.backend->read(sum.span(), {&value, 1});
    }
    outputs.resize(static_cast<std::size_t>(y.shape.count()));
    t.backend->read_activation(y, outputs);
    require_finite(t, ids.front(), outputs);
    visit({ids.front(), outputs, labels, value});
  }
}

// Prints what belongs to the task.
void print_scores(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, Labels::needed, world);
  Scores scores(t.config.training.loss.task(), t.output(), t.target_channels());
  const ChannelMap units = label_map(t.config, t.shape.label);
  const auto add = [&](const Evaluated& batch) {
    if (units.empty()) return scores.add(batch.outputs, batch.labels, batch.loss);
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end()), labels(batch.labels.begin(), batch.labels.end());
    undo(units, 0, y);
    undo(units, 0, labels);
    scores.add(y, labels, batch.loss);
  };
  collective_try(world, [&] { for_each_batch(t, add); });  // no rank waits for another inside
  scores.sum(world);
  if (!world.root()) return;
  if (options.json) {
    nlohmann::ordered_json json{{"samples", t.shape.samples},
                                {"samples_name", t.spec.samples},
                                {"labels_name", t.spec.labels},
                                {"files", t.spec.files}};
    json.update(scores.json(t.shape.samples));
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::cout << fmt::format("{} samples of {} with labels {} ({})\n\n{}", t.shape.samples, t.spec.samples, t.spec.labels,
                           fmt::join(t.spec.files, ", "), scores.text(t.shape.samples));
}

// The shape of a data set with so many numbers for each position of every sample's output; 0: without an axis for them.
std::vector<Index> data_shape(Index samples, const Shape& output, Index channels) {
  std::vector<Index> shape{samples};
  shape.insert(shape.end(), output.spatial.end() - output.axes, output.spatial.end());
  if (channels > 0) shape.push_back(channels);
  return shape;
}

// Which row of which file these samples are.
void write_sources(Hdf5Output& out, const StoredRows& stored, Range samples) {
  std::vector<std::uint32_t> files, rows;
  stored.for_each_run(samples, [&](const RowRun& run) {
    for (Index row = run.rows.first; row < run.rows.first + run.rows.count; ++row) {
      files.push_back(static_cast<std::uint32_t>(run.file));
      rows.push_back(static_cast<std::uint32_t>(row));
    }
  });
  out.write_rows("file", samples.first, std::span<const std::uint32_t>(files));
  out.write_rows("row", samples.first, std::span<const std::uint32_t>(rows));
}

// Writes the model's outputs for every sample, in the labels' own units, as the data set "prediction" and, where they
// are of classes or of yes or no, "probability" and "class". Where the samples are not simply the rows of one file,
// "file" and "row" say what they are. Reads no labels.
void write_predictions(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, Labels::unread, world);
  const Shape output = t.output();
  const Task task = t.config.training.loss.task();
  Hdf5Output file(options.output, options.replace, world);
  std::string made = "prediction";
  file.create_dataset("prediction", data_shape(t.shape.samples, output, output.channels));
  if (task != Task::regression) {
    file.create_dataset("probability", data_shape(t.shape.samples, output, output.channels));
    made += ", probability";
  }
  if (task == Task::classes) {
    file.create_dataset("class", data_shape(t.shape.samples, output, 0), ElementType::uint16);
    made += ", class";
  }
  const bool sources = !t.shape.rows.empty() || t.spec.files.size() > 1;
  if (sources) {
    for (const std::string name : {"file", "row"}) file.create_dataset(name, {t.shape.samples}, ElementType::uint32);
    file.write_text("files", fmt::format("{}", fmt::join(t.spec.files, "\n")));
    made += ", file, row";
  }
  const StoredRows stored(t.shape);
  const Normalisation& measured = t.config.data.normalise_labels;
  const ChannelMap units = channel_map(measured, std::ssize(measured.mean), "data.normalise.label");
  const auto write = [&](const Evaluated& batch) {
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end());
    undo(units, 0, y);
    file.write_rows("prediction", batch.first, y);
    if (sources) write_sources(file, stored, {batch.first, std::ssize(y) / output.per_sample()});
    if (task != Task::regression)
      file.write_rows("probability", batch.first, probabilities(task, output.channels, batch.outputs));
    if (task == Task::classes) file.write_rows("class", batch.first, predicted_classes(output.channels, batch.outputs));
  };
  collective_try(world, [&] { for_each_batch(t, write); });
  file.commit();
  if (world.root())
    std::cout << fmt::format("{}: {} {}x{}\n", options.output, made, t.shape.samples, to_string(output));
}

void add_model_options(CLI::App& sub, ModelOptions& options) {
  sub.add_option("model", options.model, "folder of a finished run, or a model file")->required();
  sub.add_option("--files", options.files, "HDF5 files to use instead of the run's");
  const Choices<SplitName> splits{{"train", SplitName::train}, {"validation", SplitName::validation}};
  add_choice(sub, "--split", options.split, splits, "train or validation: whose data set names to use");
  sub.add_option("--samples", options.samples,
                 "name of the data set of samples, e.g. test_frames; several where the run has several");
  add_choice(sub, "--missing", options.missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value; the run's data.missing unless given");
  add_wanted(sub, options.wanted);
}

}  // namespace

void add_evaluate(Subcommands& commands) {
  CLI::App* evaluate = commands.app.add_subcommand(
      "evaluate", "what a trained model does on data: errors and R^2 per label, or accuracy, IoU and Dice per class");
  auto options = std::make_shared<ModelOptions>();
  add_model_options(*evaluate, *options);
  evaluate->add_option("--labels", options->labels, "name of the data set of labels, e.g. test_unitStar_par");
  add_json(*evaluate, options->json);
  add_example(*evaluate, "mrmf evaluate runs/mine");
  commands.run(*evaluate, [=, &world = commands.world] { print_scores(*options, world); });
}

void add_predict(Subcommands& commands) {
  CLI::App* predict = commands.app.add_subcommand("predict",
                                                  "write a trained model's outputs, and probabilities and classes, for "
                                                  "every sample to an HDF5 file; needs no labels");
  auto options = std::make_shared<ModelOptions>();
  add_model_options(*predict, *options);
  predict->add_option("--labels", options->labels, "accepted as for evaluate; labels are never read");
  predict
      ->add_option("--output,-o", options->output,
                   "HDF5 file to write; data sets \"prediction\", \"probability\", \"class\"")
      ->required();
  add_overwrite(*predict, options->replace);
  add_example(*predict, "mrmf predict runs/mine --files mydata.h5 --samples test_fields -o predictions.h5");
  commands.run(*predict, [=, &world = commands.world] { write_predictions(*options, world); });
}

}  // namespace mrmf
