#include "src/run/continuation.hpp"

#include <fmt/format.h>

#include "kernels/check.hpp"
#include "src/config/config_difference.hpp"

namespace mrmf {
namespace {

constexpr const char* kAdvice =
    "set it back, give --overwrite to begin anew, or take another folder with --set run.folder=...";

void scale(RoleSettings& role, int factor) {
  if (role.batch) *role.batch *= factor;
}

// With batches and shards of all ranks in place of those of one: equal where the mini-batches are.
Config over_ranks(const RunStart& start) {
  Config config = start.config;
  if (config.data.shards == 0) config.data.shards = start.ranks;
  config.training.batch *= start.ranks;
  for (RoleSettings* role : {&config.method.coarse, &config.method.dense, &config.method.finetune})
    scale(*role, start.ranks);
  for (StageOverride& stage : config.method.stages) scale(stage.coarse, start.ranks), scale(stage.dense, start.ranks);
  return config;
}

// Lists of tables are too long for a line.
std::string value_text(const std::string& value) {
  constexpr std::size_t kLong = 60;
  return value.empty() ? "not set" : value.size() > kLong ? "another" : value;
}

}  // namespace

void require_continuable(const RunStart& was, const RunStart& is) {
  const std::string holds = "run.folder: " + is.config.run.folder + " holds an unfinished run ";
  const bool other_ranks = was.ranks != is.ranks;
  if (other_ranks && !was.config.training.global_batch_norm)
    throw ConfigError(
        fmt::format("{}on {} ranks with training.batch_norm = \"local\", where every rank has its own "
                    "statistics, and this is a run on {}; continue on {} ranks, or give --overwrite to "
                    "begin anew",
                    holds, was.ranks, is.ranks, was.ranks));
  if (other_ranks && was.config.method.join)
    throw ConfigError(
        fmt::format("{}on {} ranks with method.join = true, whose batches depend on their number, and this is a run on "
                    "{}; continue "
                    "on {} ranks, or give --overwrite to begin anew",
                    holds, was.ranks, is.ranks, was.ranks));
  const auto found = differences(over_ranks(was), over_ranks(is));
  if (!found.empty()) {
    const KeyDifference& first = found.front();
    const std::string more = found.size() > 1 ? fmt::format(" ({} more keys differ)", found.size() - 1) : "";
    const std::string ranks =
        other_ranks ? fmt::format(
                          " over all ranks ({} then, {} now: use as many, or keep data.shards and batch times "
                          "ranks)",
                          was.ranks, is.ranks)
                    : "";
    throw ConfigError(fmt::format("{}where {} is {}, and here it is {}{}{}; {}", holds, first.key,
                                  value_text(first.was), value_text(first.is), ranks, more, kAdvice));
  }
  if (was.samples != is.samples)
    throw ConfigError(
        fmt::format("{}on {} training samples, and the data now has {}; {}", holds, was.samples, is.samples, kAdvice));
}

}  // namespace mrmf
