#include "src/inference/model_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <regex>

#include "io/files/input_file.hpp"
#include "io/hdf5/file.hpp"
#include "kernels/errors.hpp"
#include "src/plan/plan.hpp"
#include "src/run/fold_folders.hpp"
#include "src/run/records.hpp"

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

ModelChoice checkpoint_of(const fs::path& run, const Config& config, const Plan& plan, int number) {
  const std::vector<Phase> phases = plan.phases();
  if (number < 1 || number > static_cast<int>(phases.size()))
    throw DataError(
        fmt::format("{}: there is a checkpoint of phase {}, and the run's plan has {}; is the "
                    "folder of one run?",
                    run.string(), number, phases.size()));
  const Phase& phase = phases[static_cast<std::size_t>(number) - 1];
  const std::string file = (run / "checkpoints" / fmt::format("step-{}.h5", number)).string();
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

}  // namespace mrmf
