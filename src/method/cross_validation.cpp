// Cross-validation, `mrmf train --folds`: a run for every fold of a split. Declared in train_run.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "io/files/output_file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split_column_and_groups.hpp"
#include "kernels/errors.hpp"
#include "src/data/data.hpp"
#include "src/method/train_run.hpp"
#include "src/run/run_folder.hpp"
#include "src/run/signals.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

// How many folds there are: those that are made, or the values of the column but for those that test.
int count_folds(const Config& config, Comm& world) {
  const SplitSettings& split = config.data.split;
  if (split.by != SplitBy::folds)
    throw ConfigError(
        "train --folds trains the folds of a split, and data.split.by is not \"folds\"; set data.split = "
        "{ by = \"folds\", folds = 5 }, or { by = \"folds\", column = ... }");
  if (split.folds > 0) return split.folds;
  DatasetSpec all = config.data.train;
  all.choice = {};
  all.not_finite = NotFiniteRule::refuse;  // nothing is looked for
  const DatasetShape shape = inspect_dataset(all, world);
  double folds = 0;
  collective_try(world, [&] {
    if (!world.root()) return;
    const RowSources sources(all, &shape, {split.column}, {.words = true});
    const SplitColumn column = read_split_column(sources, shape.file_samples, kMostRoles);
    folds = static_cast<double>(std::ranges::count_if(
        column.values, [&](const std::string& value) { return !tests(split.test_roles, column, value); }));
  });
  return static_cast<int>(world.max(folds));
}

// The same on all ranks of the team.
bool is_done(const std::string& folder, Comm& team) {
  std::error_code none;
  return team.max(team.root() && std::filesystem::exists(folder + "/result.json", none) ? 1 : 0) > 0;
}

// The folds of a folder are of one configuration: a fold that another one has trained is not what this one asks for.
void require_same_folds(const Config& config, int folds, bool overwrite) {
  const std::string &folder = config.run.folder, kept = folds_config(folder);
  if (const int more = first_fold_from(folder, folds); more >= 0)
    throw ConfigError(
        fmt::format("train --folds: {} is there, of a split with more than {} folds; remove it, or give "
                    "another folder, --set run.folder=...",
                    fold_folder(folder, more), folds));
  std::error_code none;
  if (overwrite || !std::filesystem::exists(kept, none)) return;
  const std::vector<KeyDifference> found = differences(read_config(kept, {}, Writer::run), config);
  if (!found.empty())
    throw ConfigError(
        fmt::format("train --folds: {} has folds that were trained where {} was {}, and now it is {}; set "
                    "it back, give --overwrite, or another folder, --set run.folder=...",
                    folder, found.front().key, found.front().was.empty() ? "not set" : found.front().was,
                    found.front().is.empty() ? "not set" : found.front().is));
}

// What the next command of the same folder is held against.
void keep_folds_config(const Config& config) {
  make_folders(config.run.folder);
  write_file(folds_config(config.run.folder), to_toml(config), Replace::file);
}

/// The ranks as teams that train folds side by side.
struct Teams {
  int count, own;  ///< how many; this rank's
  Comm team;
};

Teams make_teams(const RunConfig& run, int folds, Comm& world) {
  const int size = run.ranks > 0 ? run.ranks : 1;
  if (world.size() % size != 0)
    throw ConfigError(
        fmt::format("train --folds: {} ranks make no whole number of teams of run.ranks = {}; start a "
                    "multiple of it",
                    world.size(), size));
  const int count = world.size() / size, own = world.rank() / size;
  if (count > folds)
    throw ConfigError(fmt::format("train --folds: {} ranks are {} teams, and there are {} folds; start at most {}",
                                  world.size(), count, folds, folds * size));
  return {count, own, world.split(own)};
}

// Its share of the node, beside the other teams.
void share_node(Config& config, Teams& teams, Comm& world) {
  if (teams.count == 1) return;
  Comm on_host = ranks_of_same(host_name(), world);
  // The ranks of a team have one configuration, so its nodes' smallest share counts.
  const auto least = [&](double value) { return -teams.team.max(-value); };
  if (config.run.threads == 0)
    config.run.threads = static_cast<int>(least(std::max(1, cores_together(on_host) / on_host.size())));
  const double teams_here = std::max(1.0, static_cast<double>(on_host.size()) / teams.team.size());
  config.data.memory = least(config.data.memory.value_or(kShareOfMemory * host_memory() / 1e9) / teams_here);
}

}  // namespace

std::vector<std::string> train_folds(const Config& config, const TrainRun& train, Comm& world,
                                     const std::function<void(const std::string&)>& tell) {
  const int folds = count_folds(config, world);
  if (folds < 2)
    throw ConfigError(fmt::format("train --folds: '{}' has {} fold, and folds are two or more; name another data set",
                                  config.data.split.column, folds));
  Teams teams = make_teams(config.run, folds, world);
  Config own = config;
  share_node(own, teams, world);
  std::vector<std::string> folders;
  for (int fold = 0; fold < folds; ++fold) folders.push_back(fold_folder(config.run.folder, fold));
  collective_try_on_root(world, [&] {
    require_same_folds(config, folds, train.overwrite);
    keep_folds_config(config);
  });
  world.limit(0);  // teams wait for each other's runs, however long they take
  int signal = 0;
  for (int fold = teams.own; fold < folds && signal == 0; fold += teams.count) {
    own.data.split.fold = fold;
    own.run.folder = folders[static_cast<std::size_t>(fold)];
    for (DatasetSpec* part : {&own.data.train, &own.data.validation, &own.data.test})
      if (part->choice.part != Subset::all) part->choice.fold = fold;
    const bool tells = teams.team.root();
    if (!train.overwrite && is_done(own.run.folder, teams.team)) {
      if (tells) tell(own.run.folder + ": done before");
      continue;
    }
    TrainRun one = train;
    one.config_file = "";
    if (teams.count > 1) one.out = nullptr;
    if (tells) tell(fmt::format("fold {} of {}: {}", fold, folds, own.run.folder));
    try {
      train_run(own, one, teams.team);
      if (tells && teams.count > 1) tell(fmt::format("fold {} of {}: done", fold, folds));
    } catch (const Stopped& stopped) {
      signal = stopped.signal;
    }
  }
  signal = static_cast<int>(world.max(signal));
  if (signal != 0) throw Stopped{signal};
  return folders;
}

}  // namespace mrmf
