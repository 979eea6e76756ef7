// `mrmf evaluate` and `mrmf predict`: a run's model, finished or from its newest checkpoint, on any data of the same
// kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <regex>
#include <string>

#include "io/hdf5_file.hpp"
#include "io/hdf5_output.hpp"
#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/scores.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/plan/labels.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

/// The split whose data set names are used.
enum class SplitName { train, validation };

struct ModelOptions {
  std::string run;                 ///< a run folder: finished, or with a checkpoint where that is asked for
  std::vector<std::string> files;  ///< replace the run's own data
  SplitName split = SplitName::validation;
  std::string samples, labels;         ///< data set names if not the run's; predict needs no labels
  std::optional<MissingRule> missing;  ///< if other than the run's data.missing
  std::string output;                  ///< predict: HDF5 file to write
  Replace replace = Replace::nothing;
  bool checkpoint = false;          ///< use the newest checkpoint of an unfinished run
  std::optional<WhichEpoch> epoch;  ///< of a finished run's models; the best one unless given
};

struct ModelChoice {
  std::string file;  ///< final.h5, or a checkpoint
  Extent resolution{1, 1, 1};
  std::string text;  ///< describes a model that is not a finished run's; else ""
};

std::string whole(const fs::path& path) {
  std::error_code none;
  const fs::path all = fs::absolute(path, none);
  return none ? path.string() : all.lexically_normal().string();
}

// The number of the newest checkpoint; 0 when there is none.
int newest_checkpoint(const fs::path& run) {
  const std::regex form("step-([0-9]{1,9})\\.h5");
  int newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
    const std::string name = entry.path().filename().string();
    std::smatch number;
    if (std::regex_match(name, number, form)) newest = std::max(newest, std::stoi(number[1]));
  }
  return newest;
}

ModelChoice checkpoint_of(const fs::path& run, const Plan& plan, int number) {
  const std::vector<Phase> phases = plan.phases();
  if (number < 1 || number > static_cast<int>(phases.size()))
    throw DataError(
        fmt::format("{}: there is a checkpoint of phase {}, and the run's plan has {}; is the "
                    "folder of one run?",
                    run.string(), number, phases.size()));
  const Phase& phase = phases[static_cast<std::size_t>(number) - 1];
  const std::string file = (run / "checkpoints" / fmt::format("step-{}.h5", number)).string();
  return {file, phase.resolution,
          fmt::format("{}: the {} model of stage {} at resolution {}, not a finished run's", file,
                      to_string(phase.role), phase.stage, resolution_text(phase.resolution, phase.axes))};
}

// The effective configuration of a run folder. DataError when there is no such folder, or it is not a run's; says what
// was looked for where. The same on every rank.
Config read_run_config(const std::string& run) {
  std::error_code none;
  if (!fs::is_directory(run, none))
    throw DataError(run + ": there is no such run folder (looked for " + whole(run) +
                    "); give the path from here, or the whole path");
  const fs::path config = fs::path(run) / "config.toml";
  if (!fs::exists(config, none))
    throw DataError(run + ": not a run folder: there is no " + whole(config) +
                    "; name the folder that mrmf train made");
  return read_config(config.string(), {}, Writer::run);
}

// The finished run's model or, with --checkpoint, the newest checkpoint's. DataError when there is none, with what to
// do.
ModelChoice choose_model(const ModelOptions& options, const Config& config) {
  const std::string& run = options.run;
  if (options.checkpoint && options.epoch)
    throw ConfigError(
        "--epoch chooses between the models of a run that is done, and --checkpoint takes one that is "
        "not; leave one of them out");
  const Plan plan = make_plan(config);
  const fs::path model = model_path(run, options.epoch.value_or(WhichEpoch::best));
  std::error_code none;
  const bool done = fs::exists(fs::path(run) / "result.json", none);
  const int newest = newest_checkpoint(run);
  if (options.checkpoint && newest > 0 && !done) return checkpoint_of(run, plan, newest);
  if (options.checkpoint)
    throw DataError(
        fmt::format("{}: there is no checkpoint in {}{}", run, whole(fs::path(run) / "checkpoints"),
                    done ? "; the run is done: leave --checkpoint out" : "; the run was stopped before its first"));
  if (!fs::exists(model, none))
    throw DataError(
        fmt::format("{}: the run is not done: there is no {}; start the same mrmf train again to finish it{}", run,
                    whole(model), newest > 0 ? ", or take its newest checkpoint with --checkpoint" : ""));
  return {model.string(), plan.last.resolution, ""};
}

// Looks for missing relative files where the run was started, too: above its folder, according to run.folder.
void find_from_run(std::vector<std::string>& files, const std::string& run, const Config& config) {
  const fs::path folder = fs::path(config.run.folder).lexically_normal();
  if (folder.is_absolute()) return;
  fs::path start = whole(run);
  if (!start.has_filename()) start = start.parent_path();
  std::vector<fs::path> parts(folder.begin(), folder.end());
  while (!parts.empty() && (parts.back().empty() || parts.back() == ".")) parts.pop_back();
  for (; !parts.empty(); parts.pop_back(), start = start.parent_path())
    if (parts.back() != start.filename()) return;  // the folder was moved
  std::error_code none;
  for (std::string& file : files)
    if (fs::path(file).is_relative() && !fs::exists(file, none) && fs::exists(start / file, none))
      file = (start / file).string();
}

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
  if (!options.files.empty()) spec.files = options.files;
  if (!options.samples.empty()) spec.samples = options.samples;
  if (!options.labels.empty()) spec.labels = options.labels;
  if (labels == Labels::unread) spec.labels.clear();
  if (options.missing) spec.missing = *options.missing;
  // Splits often have the same size, so the run's labels would fit the wrong samples.
  if (labels == Labels::needed && !options.samples.empty() && options.labels.empty())
    throw ConfigError("evaluate --samples " + options.samples + ": name the labels that belong to them, --labels NAME");
  return spec;
}

// Needs no agreement between ranks: all have the same values.
void require_finite(Backend& backend, Model& model, const std::string& file) {
  const auto check = [&](const std::string& group, const PartPlace& part, Span arena) {
    const Span place = part.in(arena);
    std::vector<float> values(place.size());
    backend.read(place, values);
    if (!std::ranges::all_of(values, [](float w) { return std::isfinite(w); }))
      throw DataError(
          fmt::format("{}: data set '{}/{}' holds NaN or an infinity: this model cannot compute; train it "
                      "again, or restore the file from a copy",
                      file, group, part.name));
  };
  for (const PartPlace& part : parameter_places(model.network())) check("parameters", part, model.params());
  for (const PartPlace& part : state_places(model.network())) check("state", part, model.state());
}

// Checks the output before any work: it may not be one of the command's inputs.
void require_free(const ModelOptions& options, const DatasetSpec& spec, const ModelChoice& choice) {
  if (options.output.empty()) return;
  std::vector<std::string> inputs = spec.files;
  inputs.insert(inputs.end(), {choice.file, options.run + "/config.toml"});
  require_output(options.output, options.replace, inputs);
}

// Says which epoch's model it is, where the file knows.
void tell_epoch(const std::string& file, Comm& world) {
  const std::string text = Hdf5File::open(file, world).read_attribute("epoch");
  if (text.empty() || !world.root()) return;
  const ModelNote note = note_from_json(text, file);
  const bool last = note.epoch == note.epochs;
  std::cout << fmt::format("{}: {}{}{}\n", file, to_text(note), note.best ? ", the best one" : "",
                           note.best && !last ? "; --epoch last takes the last one" : "");
}

Trained open_trained(const ModelOptions& options, Labels labels, Comm& world) {
  Trained t;
  t.config = read_run_config(options.run);
  const ModelChoice choice = choose_model(options, t.config);
  t.resolution = choice.resolution;
  t.spec = dataset(options, t.config.data, labels);
  if (options.files.empty()) find_from_run(t.spec.files, options.run, t.config);
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
  t.store = std::make_unique<SampleStore>(t.spec, t.shape, visited_rows(order), world, memory.stores.front());
  t.store->require(t.resolution, batch);
  ModelSettings settings;
  settings.network = {coarse_shape(t.shape.sample, t.resolution), batch, t.config.model.layers, t.config.model.bottom};
  t.model = std::make_unique<Model>(*t.backend, settings);
  const Checksum checksum = load_model(*t.backend, choice.file, *t.model, world);
  require_finite(*t.backend, *t.model, choice.file);
  if (world.root() && !choice.text.empty()) std::cout << choice.text << "\n";
  if (world.root() && checksum == Checksum::missing)
    std::cout << choice.file << ": written by an earlier version, without a checksum: damage to it would not be seen\n";
  tell_epoch(choice.file, world);
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
  const auto add = [&](const Evaluated& batch) { scores.add(batch.outputs, batch.labels, batch.loss); };
  collective_try(world, [&] { for_each_batch(t, add); });  // no rank waits for another inside
  scores.sum(world);
  if (!world.root()) return;
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

// Writes the model's outputs for every sample as the data set "prediction" and, where they are of classes or of yes or
// no, "probability" and "class". Reads no labels.
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
  const auto write = [&](const Evaluated& batch) {
    file.write_rows("prediction", batch.first, batch.outputs);
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
  sub.add_option("run", options.run, "folder of a finished run")->required();
  sub.add_option("--files", options.files, "HDF5 files to use instead of the run's");
  const Choices<SplitName> splits{{"train", SplitName::train}, {"validation", SplitName::validation}};
  add_choice(sub, "--split", options.split, splits, "train or validation: whose data set names to use");
  sub.add_option("--samples", options.samples, "name of the data set of samples, e.g. test_frames");
  add_choice(sub, "--missing", options.missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value; the run's data.missing unless given");
  const Choices<WhichEpoch> epochs{{"best", WhichEpoch::best}, {"last", WhichEpoch::last}};
  add_choice(sub, "--epoch", options.epoch, epochs,
             "best or last: which epoch's model to use; the best one unless given");
  sub.add_flag("--checkpoint", options.checkpoint, "use the newest checkpoint of a run that is not done");
}

}  // namespace

void add_evaluate(Subcommands& commands) {
  CLI::App* evaluate = commands.app.add_subcommand(
      "evaluate", "what a trained model does on data: errors and R^2 per label, or accuracy, IoU and Dice per class");
  auto options = std::make_shared<ModelOptions>();
  add_model_options(*evaluate, *options);
  evaluate->add_option("--labels", options->labels, "name of the data set of labels, e.g. test_unitStar_par");
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
  commands.run(*predict, [=, &world = commands.world] { write_predictions(*options, world); });
}

}  // namespace mrmf
