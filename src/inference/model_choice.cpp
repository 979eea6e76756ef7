// Which model a name stands for (a run's folder, a checkpoint, a model file), on which rows it was trained, and which
// models may predict the same samples together. Declared in trained_models.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <set>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "io/rows/duplicate_rows.hpp"
#include "io/rows/split.hpp"
#include "io/values/class_names.hpp"
#include "kernels/errors.hpp"
#include "src/inference/trained_models.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

std::string whole(const fs::path& path) {
  std::error_code none;
  const fs::path all = fs::absolute(path, none);
  return none ? path.string() : all.lexically_normal().string();
}

// The number of the newest checkpoint; 0 when there is none.
int newest_checkpoint(const fs::path& run) {
  int newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none))
    newest = std::max(newest, phase_of_checkpoint(entry.path().filename().string()));
  return newest;
}

ModelChoice checkpoint_of(const fs::path& run, const Config& config, const Plan& plan, int number) {
  const std::vector<Phase> phases = plan.phases();
  if (number < 1 || number > static_cast<int>(phases.size()))
    throw DataError(
        fmt::format("{}: there is a checkpoint of phase {}, and the run's plan has {}; is the "
                    "folder of one run?",
                    run.string(), number, phases.size()));
  const Phase& phase = phases[static_cast<std::size_t>(number) - 1];
  const std::string file = checkpoint_file(run.string(), number);
  return {config, run.string(), file, phase.resolution,
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
  if (!is_there(config.string()) && with_folds({run}).size() > 1)
    throw DataError(run + ": holds the runs of folds; name one of them, such as " + fold_folder(run, 0) +
                    ", or all of them with predict --ensemble");
  if (!is_there(config.string()))
    throw DataError(run + ": not a run folder: there is no " + whole(config) +
                    "; name the folder that mrmf train made");
  return read_config(config.string(), {}, Writer::run);
}

ModelChoice choose_of_run(const std::string& run, const WantedModel& wanted) {
  const Config config = read_run_config(run);
  if (wanted.checkpoint && wanted.epoch)
    throw ConfigError(
        "--epoch chooses between the models of a run that is done, and --checkpoint takes one that is not; leave one "
        "of them out");
  const Plan plan = make_plan(config);
  const fs::path model = model_path(run, wanted.epoch.value_or(WhichEpoch::best));
  const bool done = is_there((fs::path(run) / "result.json").string());
  const int newest = newest_checkpoint(run);
  if (wanted.checkpoint && newest > 0 && !done) return checkpoint_of(run, config, plan, newest);
  if (wanted.checkpoint)
    throw DataError(
        fmt::format("{}: there is no checkpoint in {}{}", run, whole(fs::path(run) / "checkpoints"),
                    done ? "; the run is done: leave --checkpoint out" : "; the run was stopped before its first"));
  if (!is_there(model.string()))
    throw DataError(
        fmt::format("{}: the run is not done: there is no {}; start the same mrmf train again to finish it{}", run,
                    whole(model), newest > 0 ? ", or take its newest checkpoint with --checkpoint" : ""));
  return {config, run, model.string(), plan.last.resolution, ""};
}

// A run under way writes its folder, and another node may see that later: what the root finds counts.
ModelChoice choose_on_root(const std::string& run, const WantedModel& wanted, Comm& world) {
  ModelChoice choice;
  collective_try_on_root(world, [&] { choice = choose_of_run(run, wanted); });
  std::string config = to_toml(choice.config);
  for (std::string* const text : {&config, &choice.run, &choice.file, &choice.text}) world.broadcast(*text, 0);
  std::vector<std::int64_t> resolution(choice.resolution.begin(), choice.resolution.end());
  world.broadcast(std::span(resolution), 0);
  if (world.root()) return choice;
  std::ranges::copy(resolution, choice.resolution.begin());
  choice.config = parse_config(config, run + "/config.toml", {}, Writer::run);
  return choice;
}

ModelChoice choose_file(const std::string& file, const WantedModel& wanted, Comm& world) {
  if (wanted.checkpoint || wanted.epoch)
    throw ConfigError(file + ": " + (wanted.checkpoint ? "--checkpoint" : "--epoch") +
                      " is for the folder of a run, and this is a file; leave it out");
  if (fs::path(file).extension() == ".toml")
    throw DataError(file + ": a configuration, not a model; name the folder of its run (run.folder), or a model file");
  const ModelFacts facts = read_model_facts(file, world);
  if (facts.checkpoint)
    throw DataError(file + ": a checkpoint of a run under way; name the run's folder, and --checkpoint");
  if (facts.config.empty())
    throw DataError(file + ": there is no configuration in it, so its network is not known; name its run's folder");
  const Config config = parse_config(facts.config, file, {}, Writer::run);
  return {config, "", file, make_plan(config).last.resolution, ""};
}

}  // namespace

std::vector<std::string> ModelChoice::inputs() const {
  return run.empty() ? std::vector{file} : std::vector{file, run + "/config.toml"};
}

ModelChoice choose_model(const std::string& from, const WantedModel& wanted, Comm& world) {
  std::error_code none;
  const bool file = world.root() && fs::is_regular_file(from, none);
  return world.any(file) ? choose_file(from, wanted, world) : choose_on_root(from, wanted, world);
}

EpochOfModel epoch_of(const std::string& file, Comm& world) {
  const std::string text = Hdf5File::open(file, world).read_attribute("epoch");
  if (text.empty()) return {};
  const ModelNote note = note_from_json(text, file);
  return {fmt::format("{}: {}{}", file, to_text(note), note.best ? ", the best one" : ""),
          note.best && note.epoch < note.epochs};
}

void tell_epoch(const std::string& file, std::ostream& out, Comm& world) {
  const EpochOfModel epoch = epoch_of(file, world);
  if (epoch.text.empty() || !world.root()) return;
  out << epoch.text << (epoch.later ? "; --epoch last takes the last one" : "") << "\n";
}

void find_from_run(std::vector<std::string>& files, const ModelChoice& choice) {
  const fs::path folder = fs::path(choice.config.run.folder).lexically_normal();
  if (choice.run.empty() || folder.is_absolute()) return;
  fs::path start = whole(choice.run);
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

namespace {

// The first of the files that is one of a list, under whatever name; "": none is. The root's view on all ranks.
std::string first_listed(const std::vector<std::string>& files, const std::vector<std::string>& list, Comm& world) {
  std::string first;
  if (world.root()) {
    std::set<FileIdentity> listed;  // one look at each file: there may be thousands
    for (const std::string& file : list)
      if (const auto identity = file_identity(file)) listed.insert(*identity);
    const auto found = std::ranges::find_if(files, [&](const std::string& file) {
      const auto identity = file_identity(file);
      return identity && listed.contains(*identity);
    });
    if (found != files.end()) first = *found;
  }
  world.broadcast(first, 0);
  return first;
}

// The rows that the choice of the training data takes; nothing where its files are gone.
std::optional<DatasetShape> rows_of_training(DatasetSpec train, const FoundDataset& known, Comm& world) {
  train.name_labels({});
  train.missing = MissingRule::fill;
  train.not_finite = NotFiniteRule::refuse;  // skipping would read all samples
  try {
    return inspect_dataset(train, known, world);
  } catch (const DataError&) {  // on every rank
    return {};
  } catch (const ConfigError&) {  // the files have other axes now
    return {};
  }
}

}  // namespace

std::string training_rows_text(const ModelChoice& choice, const DatasetSpec& spec, const DatasetShape& shape,
                               Comm& world) {
  DatasetSpec train = choice.config.data.train;
  find_from_run(train.files, choice);
  const std::string name = choice.run.empty() ? choice.file : choice.run;
  const char* instead = "without --files and --samples only validation rows are taken";
  const std::optional<DatasetShape> trained = rows_of_training(train, {spec, shape}, world);
  if (!trained) {
    const std::string known = first_listed(spec.files, train.files, world);
    if (known.empty() || train.sample_names() != spec.sample_names()) return "";
    return fmt::format("{}: {} holds rows that it was trained on; {}", name, known, instead);
  }
  const Index common = count_common_samples({spec, shape}, {train, *trained}, world);
  if (common == 0) return "";
  return fmt::format("{}: {} of these {} rows are training rows; {}", name, common, shape.samples, instead);
}

namespace {

/// What has to be the same for models to predict together, in words.
struct Trait {
  std::string what, value;
};

std::vector<Trait> traits(const ModelChoice& choice, const std::string& sample) {
  const DataConfig& data = choice.config.data;
  constexpr const char* rows[] = {"axis", "files", "groups"};
  constexpr const char* tasks[] = {"numbers", "yes or no", "classes"};
  const auto text = [](const auto& words) { return words.empty() ? std::string("not given") : words; };
  return {{"the task", tasks[static_cast<std::size_t>(choice.config.training.loss.task())]},
          {"the resolution", fmt::format("{}", fmt::join(choice.resolution, "x"))},
          {"the shape of a sample", sample},
          {"data.rows", rows[static_cast<std::size_t>(data.train.rows)]},
          {"data.axes", text(data.train.axes)},
          {"data.mask", data.train.mask ? "true" : "false"},
          {"data.layout", data.train.layout == SampleLayout::as_stored ? "as_stored" : "reinterpret"}};
}

// The folds of one split train on each other's validation rows.
void require_unseen(const ModelOptions& options, const std::vector<ModelChoice>& choices) {
  const bool own = options.files.empty() && options.samples.empty() && options.groups.empty();
  if (!own || options.split == Subset::test) return;
  const RowChoice& first = choices.front().config.data.validation.choice;
  for (std::size_t m = 1; m < choices.size(); ++m) {
    RowChoice here = choices[m].config.data.validation.choice;
    if (here.rule != SplitRule::folds || here.fold == first.fold) continue;
    here.fold = first.fold;
    if (here == first)
      refuse_together(options.models.front(), options.models[m],
                      "they are folds of one split, and each was trained on rows with which the other validates; give "
                      "--split test, or data that none has seen with --files or --samples");
  }
}

}  // namespace

void refuse_together(const std::string& a, const std::string& b, const std::string& why) {
  throw ConfigError("predict: " + a + " and " + b + " cannot predict together: " + why);
}

void require_together(const ModelOptions& options, const std::vector<ModelChoice>& choices, Comm& world) {
  if (choices.size() < 2) return;
  std::vector<Trait> first;
  for (std::size_t m = 0; m < choices.size(); ++m) {
    const std::vector<Trait> here = traits(choices[m], read_model_facts(choices[m].file, world).sample);
    if (m == 0) first = here;
    for (std::size_t i = 0; i < here.size(); ++i)
      if (here[i].value != first[i].value && !here[i].value.empty() && !first[i].value.empty())
        refuse_together(options.models.front(), options.models[m],
                        here[i].what + " is " + first[i].value + " here and " + here[i].value + " there");
    const auto names = [&](std::size_t model) {
      return LabelNames::from_texts(choices[model].config.data.names.stored, options.models[model]);
    };
    if (const std::string text = contradiction(names(0), names(m)); !text.empty())
      refuse_together(options.models.front(), options.models[m], "of the labels " + text);
    std::error_code none;
    for (std::size_t other = 0; other < m; ++other)
      if (std::filesystem::equivalent(choices[other].file, choices[m].file, none))
        refuse_together(options.models[other], options.models[m],
                        "they are one model, which would look surer than it is; give runs of other seeds");
  }
  require_unseen(options, choices);
}

}  // namespace mrmf
