#include "src/method/run_lines.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <utility>

#include "layers/geometry.hpp"
#include "src/data/data.hpp"
#include "src/data/windows.hpp"
#include "src/rank_planner/cost_model.hpp"
#include "src/training/sample_grid.hpp"

namespace mrmf {
namespace {

// What every rank of a group does by itself; empty where that is nothing.
std::string repeated_text(const Network& network, const Grid& grid) {
  const std::vector<std::string> whole = grid_layers(Partition(network, grid), network).whole;
  return whole.empty() ? "" : "; every rank computes all of " + names_text(whole);
}

std::vector<std::string> grid_lines(const Config& config, const Plan& plan, const Shape& sample, int ranks) {
  const auto backend = make_reference_backend();
  std::vector<std::string> lines;
  const std::vector<Extent> resolutions = plan.resolutions();
  for (std::size_t i = 0; i < resolutions.size(); ++i) {
    const Grid grid{plan.grid(resolutions[i])};
    const int groups = ranks / grid.ranks();
    std::string line = grid.ranks() == 1
                           ? "each rank has its own samples"
                           : fmt::format(
                                 "each sample is shared by {} ranks, {} blocks along its axes; {} "
                                 "group{} of ranks",
                                 grid.ranks(), to_string(grid.blocks, sample.axes), groups, groups == 1 ? "" : "s");
    if (grid.ranks() > 1)
      line += repeated_text({*backend, network_settings(config, plan, sample, resolutions[i])}, grid);
    if (std::ranges::any_of(resolutions, [&](const Extent& r) { return plan.grid(r) != grid.blocks; }))
      line = fmt::format("resolution {}: {}", resolution_text(resolutions[i], plan.last.axes), line);
    line = "grid: " + line;
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
  return lines;
}

std::string replicas_text(int shards, int ranks) {
  const int own = shards / ranks, threads = omp_get_max_threads();
  return fmt::format(
      "deterministic: each of {} shards is computed by itself, by one thread: the same bits on any number of ranks and "
      "threads{}",
      shards, own < threads ? fmt::format("; {} of {} threads per rank are idle", threads - own, threads) : "");
}

// What an epoch takes of each sample at a resolution, and how whole ones are seen.
std::string boxes_text(const Config& config, const Shape& sample, const Extent& resolution) {
  const Shape whole = coarse_shape(sample, resolution), patch = patch_of(config.data.patch, whole);
  const Reach reach = reach_of(network_for(config, resolution, patch).layers);
  const Windows windows(config.data.patch, whole, reach);
  const Index boxes = patches_of(config.data.patch, whole), seen = windows.count();
  return fmt::format("boxes at {}: {} of {} of each sample in an epoch; whole samples are seen in {} window{}{}",
                     resolution_text(resolution, sample.axes), boxes, to_string(patch), seen, seen == 1 ? "" : "s",
                     windows.exact() ? ", as if at once"
                     : reach.whole   ? ", each by itself, as layers see all of a box"
                                     : ", which overlap by less than the network looks");
}

}  // namespace

void tell_more_epochs(const Plan& plan, RunLog& log) {
  const RateRule rule = plan.last.optimizer.rule;
  const bool curve = rule == RateRule::cosine || rule == RateRule::linear;
  log.line(fmt::format("more epochs: {} continues until {} epochs are done; its {} rate {}", phase_text(plan.last),
                       plan.last.stop.epochs, to_string(rule),
                       curve ? "continues along the curve of that length" : "continues as it was"));
}

void tell_data(RunLog& log, const ResolvedRun& run, Data& data, const Backend& backend, int ranks, bool by_teams) {
  for (const std::string& reason : run.reasons) log.line("auto: " + reason);
  log.line(fmt::format("{} rank{}, {}", ranks, ranks == 1 ? "" : "s", backend.description()));
  if (const Index groups = ranks / Grid{run.plan.last.grid}.ranks(); groups > 1)
    log.line(fmt::format("global batch {}: {} of each {}", run.plan.last.batch * groups, run.plan.last.batch,
                         groups == ranks ? "rank" : "group of ranks"));
  log.line(fmt::format("data: {} training and {} validation samples of {}{}", run.shape.samples,
                       data.validation().shape.samples, to_string(run.shape.sample),
                       by_teams ? "" : fmt::format(", read in {:.1f} s", data.load_seconds())));
  if (!data.train().shape.unused.empty()) log.line("data: " + data.train().shape.unused);
  for (const auto& [spec, split] :
       {std::pair(&run.config.data.train, &data.train()), std::pair(&run.config.data.validation, &data.validation())})
    for (const std::string& line : skipped_lines(*spec, split->shape)) log.line(line);
  if (!by_teams) log.line("data: " + data.way());
  if (!run.config.data.patch.any()) return;
  for (const Extent& resolution : run.plan.resolutions())
    log.line(boxes_text(run.config, run.shape.sample, resolution));
}

void tell_sharing(RunLog& log, const ResolvedRun& run, bool shard_replicas, int ranks) {
  if (run.plan.shares_samples())
    for (const std::string& line : grid_lines(run.config, run.plan, run.shape.sample, ranks)) log.line(line);
  if (shard_replicas) log.line(replicas_text(run.config.data.shards, ranks));
}

}  // namespace mrmf
