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

// The configuration with batches and shards of all ranks in place of one rank's: equal if the mini-batches are.
Config over_ranks(const RunStart& start) {
  Config config = start.config;
  if (config.data.shards == 0) config.data.shards = start.ranks;
  config.training.batch *= start.ranks;
  for (RoleSettings* role : {&config.method.coarse, &config.method.dense, &config.method.finetune})
    scale(*role, start.ranks);
  for (StageOverride& stage : config.method.stages) scale(stage.coarse, start.ranks), scale(stage.dense, start.ranks);
  return config;
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
  const bool other_ranks = was.ranks != is.ranks;
  if (other_ranks && !was.config.training.global_batch_norm)
    throw ConfigError(
        fmt::format("{}on {} ranks with training.batch_norm = \"local\", where every rank has its own "
                    "statistics, and this is a run on {}; continue on {} ranks, or {}",
                    advice.holds(), was.ranks, is.ranks, was.ranks, advice.anew()));
  require_same_files(was, advice);
  auto found = differences(over_ranks(was), over_ranks(is));
  if (!found.empty()) {
    if (std::ranges::all_of(found, may_be_measured)) refuse_changed_data(was, advice, found.front());
    std::erase_if(found, may_be_measured);  // they may follow from the others
    const std::string more = found.size() > 1 ? fmt::format(" ({} more keys differ)", found.size() - 1) : "";
    const std::string ranks =
        other_ranks ? fmt::format(
                          " over all ranks ({} then, {} now: use as many, or keep data.shards and batch times "
                          "ranks)",
                          was.ranks, is.ranks)
                    : "";
    throw ConfigError(
        fmt::format("{}where {}{}{}; {}", advice.holds(), text(found.front()), ranks, more, advice.back()));
  }
  if (was.samples != is.samples)
    throw ConfigError(fmt::format("{}on {} training samples, and the data now has {}; {}", advice.holds(), was.samples,
                                  is.samples, advice.back()));
}

}  // namespace mrmf
