#include "src/run/continuation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "kernels/check.hpp"
#include "src/config/toml.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

constexpr const char* kAnew = "give --overwrite to begin anew, or take another folder with --set run.folder=...";

/// What is to be done about a run that cannot go on as it is asked to.
struct Advice {
  const RunStart& is;
  Epochs epochs;
  // --continue takes neither --overwrite nor another folder.
  std::string anew() const {
    if (epochs == Epochs::same) return kAnew;
    return "begin a new run with model.start = " + quoted(is.config.run.folder) + " in another folder";
  }
  std::string back() const { return (epochs == Epochs::same ? "set it back, " : "set it back, or ") + anew(); }
  std::string holds() const {
    return "run.folder: " + is.config.run.folder +
           (epochs == Epochs::same ? " holds an unfinished run " : " holds a run ");
  }
};

void scale(RoleSettings& role, int factor) {
  if (role.batch) *role.batch *= factor;
}

/// Ranks, or groups of ranks that share samples.
int groups(const RunStart& start, const Extent& grid) { return start.ranks / static_cast<int>(product(grid)); }

// The configuration with batches and shards of all ranks in place of one rank's: equal if the mini-batches are.
Config over_ranks(const RunStart& start) {
  Config config = start.config;
  const int factor = groups(start, config.run.grid.front());
  if (config.data.shards == 0) config.data.shards = factor;
  config.training.batch *= factor;
  for (RoleSettings* role : {&config.method.coarse, &config.method.dense, &config.method.finetune})
    scale(*role, factor);
  for (StageOverride& stage : config.method.stages) scale(stage.coarse, factor), scale(stage.dense, factor);
  return config;
}

// The configuration without the keys that set mini-batches.
Config without_batches(Config config) {
  config.data.shards = 0;
  config.training.batch = 1;
  MethodConfig& method = config.method;
  for (RoleSettings* role : {&method.coarse, &method.dense, &method.finetune}) role->batch.reset();
  for (StageOverride& stage : method.stages) stage.coarse.batch.reset(), stage.dense.batch.reset();
  return config;
}

// Where each resolution has a grid of its own, so that one number of groups does not tell: phase by phase.
void require_same_batches(const RunStart& was, const Advice& advice) {
  const RunStart& is = advice.is;
  const std::vector<Phase> then = make_plan(was.config).phases(), now = make_plan(is.config).phases();
  const auto shards = [](const RunStart& start, const Phase& phase) {
    return start.config.data.shards > 0 ? start.config.data.shards : groups(start, phase.grid);
  };
  for (std::size_t i = 0; i < then.size(); ++i) {
    const int batch_then = then[i].batch * groups(was, then[i].grid), batch = now[i].batch * groups(is, now[i].grid);
    const int shards_then = shards(was, then[i]), shards_now = shards(is, now[i]);
    if (batch_then == batch && shards_then == shards_now) continue;
    throw ConfigError(
        fmt::format("{}where {} has mini-batches of {} from {} shards of the data, and here of {} from {}: keep "
                    "data.shards and the "
                    "batch times the groups of ranks that run.grid makes; {}",
                    advice.holds(), place_text(then[i]), batch_then, shards_then, batch, shards_now, advice.back()));
  }
}

// "training.seed is 1, and here it is 5". Lists of tables are too long for a line.
std::string text(const KeyDifference& difference) {
  constexpr std::size_t kLong = 60;
  const auto value = [](const std::string& toml) {
    return toml.empty() ? "not set" : toml.size() > kLong ? "another" : toml;
  };
  const std::string was = value(difference.was), is = value(difference.is);
  if (was == is) return difference.key + " is another than here";
  return difference.key + " is " + was + ", and here it is " + is;
}

// Of training and validation: data.split.by = "files" deals them out.
std::set<std::string> all_files(const DataConfig& data) {
  std::set<std::string> files(data.train.files.begin(), data.train.files.end());
  files.insert(data.validation.files.begin(), data.validation.files.end());
  return files;
}

// "c.h5 is new": the files that only one of them has, of which there may be thousands.
std::string only_in(const std::set<std::string>& these, const std::set<std::string>& those, const std::string& what) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names;
  std::ranges::set_difference(these, those, std::back_inserter(names));
  if (names.empty()) return "";
  const std::size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  return fmt::format("{}{} {} {}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                     names.size() + more > 1 ? "are" : "is", what);
}

// The files by name, where they are not the same.
void require_same_files(const RunStart& was, const Advice& advice) {
  const std::set<std::string> then = all_files(was.config.data), now = all_files(advice.is.config.data);
  if (then == now) return;
  const std::string gone = only_in(then, now, "gone"), added = only_in(now, then, "new");
  throw ConfigError(fmt::format(
      "{}of other data files: {}{}{}; name the same files again (a pattern names all that are there now){} {}",
      advice.holds(), gone, gone.empty() || added.empty() ? "" : ", ", added,
      advice.epochs == Epochs::same ? "," : ", or", advice.anew()));
}

// Keys that a run sets itself where the user does not, by what it finds in the training data.
bool may_be_measured(const KeyDifference& difference) {
  static const std::set<std::string> keys{"data.normalise.sample_mean", "data.normalise.sample_std",
                                          "data.normalise.label_mean", "data.normalise.label_std"};
  return keys.contains(difference.key) && !difference.was.empty() && !difference.is.empty();
}

[[noreturn]] void refuse_changed_data(const RunStart& was, const Advice& advice, const KeyDifference& measured) {
  const Index now = advice.is.samples;
  const std::string samples = was.samples == now ? "" : fmt::format(": {} samples then, {} now", was.samples, now);
  throw ConfigError(
      fmt::format("{}on other training data{} ({}; unless you set it, it is measured over the training samples); {}",
                  advice.holds(), samples, text(measured), advice.back()));
}

}  // namespace

void require_continuable(const RunStart& was, const RunStart& is, Epochs epochs) {
  const Advice advice{is, epochs};
  const bool by_stage = was.config.run.grid.size() > 1 || is.config.run.grid.size() > 1;
  const bool other_ranks =
      !by_stage && groups(was, was.config.run.grid.front()) != groups(is, is.config.run.grid.front());
  if (was.ranks != is.ranks && !was.config.training.global_batch_norm)
    throw ConfigError(
        fmt::format("{}on {} ranks with training.batch_norm = \"local\", where every rank has its own "
                    "statistics, and this is a run on {}; continue on {} ranks, or {}",
                    advice.holds(), was.ranks, is.ranks, was.ranks, advice.anew()));
  require_same_files(was, advice);
  auto found = by_stage ? differences(without_batches(was.config), without_batches(is.config))
                        : differences(over_ranks(was), over_ranks(is));
  if (!found.empty()) {
    if (std::ranges::all_of(found, may_be_measured)) refuse_changed_data(was, advice, found.front());
    std::erase_if(found, may_be_measured);  // they may follow from the others
    const std::string more = found.size() > 1 ? fmt::format(" ({} more keys differ)", found.size() - 1) : "";
    const std::string ranks =
        other_ranks ? fmt::format(
                          " over all ranks ({} then, {} now: use as many, or keep data.shards and batch times "
                          "ranks)",
                          groups(was, was.config.run.grid.front()), groups(is, is.config.run.grid.front()))
                    : "";
    throw ConfigError(
        fmt::format("{}where {}{}{}; {}", advice.holds(), text(found.front()), ranks, more, advice.back()));
  }
  if (by_stage) require_same_batches(was, advice);
  if (was.samples != is.samples)
    throw ConfigError(fmt::format("{}on {} training samples, and the data now has {}; {}", advice.holds(), was.samples,
                                  is.samples, advice.back()));
}

}  // namespace mrmf
