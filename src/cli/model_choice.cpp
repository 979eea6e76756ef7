#include "src/cli/model_choice.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <regex>

#include "kernels/check.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

std::string whole(const fs::path& path) {
  std::error_code none;
  const fs::path all = fs::absolute(path, none);
  return none ? path.string() : all.lexically_normal().string();
}

// The number of the newest checkpoint; 0: there is none.
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
  const std::vector<TrainStep> steps = plan.training();
  if (number < 1 || number > static_cast<int>(steps.size()))
    throw DataError(
        fmt::format("{}: there is a checkpoint of training step {}, and the run's plan has {}; is the "
                    "folder of one run?",
                    run.string(), number, steps.size()));
  const TrainStep& step = steps[static_cast<std::size_t>(number) - 1];
  const std::string file = (run / "checkpoints" / fmt::format("step-{}.h5", number)).string();
  return {file, step.resolution,
          fmt::format("{}: the {} model of stage {} at resolution {}, not a finished run's", file, to_string(step.role),
                      step.stage, resolution_text(step.resolution, step.axes))};
}

}  // namespace

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

ModelChoice choose_model(const std::string& run, const Config& config, bool checkpoint) {
  const Plan plan = make_plan(config);
  const fs::path model = fs::path(run) / "checkpoints" / "final.h5";
  std::error_code none;
  const bool done = fs::exists(model, none);
  const int newest = newest_checkpoint(run);
  if (checkpoint && newest > 0) return checkpoint_of(run, plan, newest);
  if (checkpoint)
    throw DataError(
        fmt::format("{}: there is no checkpoint in {}{}", run, whole(fs::path(run) / "checkpoints"),
                    done ? "; the run is done: leave --checkpoint out" : "; the run was stopped before its first"));
  if (!done)
    throw DataError(
        fmt::format("{}: the run is not done: there is no {}; start the same mrmf train again to finish it{}", run,
                    whole(model), newest > 0 ? ", or take its newest checkpoint with --checkpoint" : ""));
  return {model.string(), plan.last.resolution, ""};
}

void find_from_run(std::vector<std::string>& files, const std::string& run, const Config& config) {
  const fs::path folder = fs::path(config.run.folder).lexically_normal();
  if (folder.is_absolute()) return;
  fs::path start = whole(run);
  if (!start.has_filename()) start = start.parent_path();
  std::vector<fs::path> parts(folder.begin(), folder.end());
  while (!parts.empty() && (parts.back().empty() || parts.back() == ".")) parts.pop_back();
  for (; !parts.empty(); parts.pop_back(), start = start.parent_path())
    if (parts.back() != start.filename()) return;  // moved since
  std::error_code none;
  for (std::string& file : files)
    if (fs::path(file).is_relative() && !fs::exists(file, none) && fs::exists(start / file, none))
      file = (start / file).string();
}

}  // namespace mrmf
