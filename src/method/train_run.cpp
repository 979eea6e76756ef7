#include "src/method/train_run.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "layers/geometry.hpp"
#include "src/data/logarithms.hpp"
#include "src/method/pipeline.hpp"
#include "src/method/resolved_run.hpp"
#include "src/method/teams.hpp"
#include "src/plan/labels.hpp"
#include "src/plan/plan.hpp"
#include "src/planner/operation.hpp"
#include "src/run/model_file.hpp"
#include "src/run/recorded_data.hpp"
#include "src/run/run_folder.hpp"
#include "src/run/start_model.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"
#include "src/training/batch_sampler.hpp"
#include "src/training/run_rules.hpp"

namespace mrmf {
namespace {

// What a longer phase does with the learning rate.
void tell_more_epochs(const Plan& plan, RunLog& log) {
  const RateRule rule = plan.last.optimizer.rule;
  const bool curve = rule == RateRule::cosine || rule == RateRule::linear;
  log.line(fmt::format("more epochs: {} continues until {} epochs are done; its {} rate {}", phase_text(plan.last),
                       plan.last.stop.epochs, to_string(rule),
                       curve ? "continues along the curve of that length" : "continues as it was"));
}

// The ranks of a group that cut samples otherwise would wait for each other.
void require_same_grids(const RunConfig& run, Comm& world) {
  std::string text;
  for (const Extent& grid : run.grid) text += (text.empty() ? "" : ", ") + Grid{grid}.text();
  if (world.agree(std::hash<std::string>{}(text))) return;
  throw ConfigError("run.grid is not the same on all ranks: rank " + std::to_string(world.rank()) + " has " + text +
                    "; start all ranks with one configuration and the same --set");
}

// What a grid does not go with. Runs before any data is read.
void require_grids(const Plan& plan, const Config& config, const Backend& backend) {
  if (!plan.shares_samples()) return;
  const auto refuse = [](const std::string& what, const std::string& advice) {
    throw ConfigError("run.grid does not go with " + what + "; " + advice);
  };
  if (shard_by_shard(config, backend.immediate()))
    refuse("run.deterministic and data.shards on the CPU, where every shard is computed by itself",
           "remove one of them");
}

// More epochs continue from the end of those that there are. The same on every rank.
void require_end(const TrainRun& train, const std::string& run, const Checkpoints& checkpoints) {
  std::error_code none;
  if (train.more_epochs && !checkpoints.found() && std::filesystem::exists(run + "/result.json", none))
    throw ConfigError(run +
                      ": there is no checkpoint of the run's end (checkpoints/step-<n>.h5), which earlier versions did "
                      "not keep; begin a new run with model.start = \"" +
                      run + "\"");
}

// Runs before any data is read. A resumed run does not look at its start again: it may be gone.
void check_start(const Plan& plan, const Config& config, const DatasetShape& shape, Comm& world) {
  if (config.model.start.empty()) return;
  const auto backend = make_reference_backend();
  const Network first(*backend, network_settings(config, plan, shape.sample, plan.resolutions().front()));
  match_start_layers(config, first, world);
}

// A command does not replace what it reads: --set would change the configuration that a run keeps. `asked` is what the
// run was asked for, as TOML.
void require_kept_config(const RunFolder& folder, const std::string& file, const std::string& asked) {
  if (folder.is_own_config(file) && asked != to_toml(read_config(file, {})))
    throw ConfigError(file +
                      ": is the configuration that run.folder keeps, and --set would replace it; copy "
                      "it to another place and start from there, or leave --set out");
}

// The root opens the report; the others hold an empty one.
RunLog open_run_log(const Config& config, const Plan& plan, const RunLogSettings& settings,
                    const Checkpoints& checkpoints, const std::optional<RunFolder>& folder, const TrainRun& train) {
  if (!folder) return RunLog(settings);
  // A configuration that is trained from inside the run folder is the user's file and stays unchanged.
  const std::string text = folder->is_own_config(train.config_file) ? "" : to_toml(config);
  RunLog log(settings, text, to_json(plan), checkpoints.history());
  log.line(checkpoints.found() ? "continues " + checkpoints.position() : to_text(plan));
  if (!checkpoints.data_line().empty()) log.line(checkpoints.data_line());
  return log;
}

// The first phase that has not ended yet.
Phase first_phase(const Plan& plan, const Checkpoints& checkpoints) {
  const std::vector<PhaseHistory> history = checkpoints.history();
  for (const Phase& phase : plan.phases())
    if (std::ranges::none_of(history, [&](const PhaseHistory& past) {
          return past.record.stage == phase.stage && past.record.role == phase.role && !past.record.reason.empty();
        }))
      return phase;
  return plan.last;
}

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

// Writes the last epoch's model and, where it is another, the best one's. Returns what their files say of the best one;
// none where no model of the best epoch was kept.
std::optional<ModelNote> save_models(Backend& backend, Outcome& outcome, const Config& config, Comm& world) {
  const PhaseRecord& phase = outcome.phases.back();
  const auto note = [&](int epoch) {
    const EpochRecord& record = outcome.epochs.at(static_cast<std::size_t>(epoch) - 1);
    const bool best = epoch == phase.best_epoch && is_best(outcome.epochs, epoch, config.training.monitor);
    return ModelNote{epoch, phase.epochs, record.validation_loss, record.metric, best};
  };
  const auto save = [&](const std::string& path, int epoch) {
    save_model(backend, path, outcome.model_state.model, {to_toml(config), to_json(note(epoch))}, world, Replace::file,
               outcome.model_state.sample_group);
  };
  const std::string& run = config.run.folder;
  if (phase.best_epoch > 0 && phase.best_epoch != phase.epochs) {
    outcome.model_state.swap_best(backend);
    save(best_model_path(run), phase.best_epoch);
    outcome.model_state.swap_best(backend);
  } else if (world.root()) {
    remove_best_model(run);  // of fewer epochs, which the run has continued from
  }
  save(last_model_path(run), phase.epochs);
  if (phase.best_epoch == 0 || !note(phase.best_epoch).best) return {};
  return note(phase.best_epoch);
}

// Removes what an earlier run in the same folder left, unless that continues.
void forget_earlier(Checkpoints& checkpoints, const Config& config, const TrainRun& train, Comm& world) {
  if (checkpoints.found()) return;
  checkpoints.clear(world);
  if (train.overwrite) forget_teams(config.run, world);
  forget_teams_of_others(config, world);
}

void require_validation_logarithms(const Config& config, Data& data, Comm& world) {
  DatasetShape validation = data.validation().shape;
  validation.block.reset();
  require_logarithms(config.data, config.data.validation, validation, world);
}

// The log's lines about auto's reasons, the machine and the data. Teams read theirs later.
void tell_data(RunLog& log, const ResolvedRun& run, Data& data, const Backend& backend, int ranks, bool by_teams) {
  for (const std::string& reason : run.reasons) log.line("auto: " + reason);
  log.line(fmt::format("{} rank{}, {}", ranks, ranks == 1 ? "" : "s", backend.description()));
  log.line(fmt::format("data: {} training and {} validation samples of {}{}", run.shape.samples,
                       data.validation().shape.samples, to_string(run.shape.sample),
                       by_teams ? "" : fmt::format(", read in {:.1f} s", data.load_seconds())));
  if (!data.train().shape.unused.empty()) log.line("data: " + data.train().shape.unused);
  for (const auto& [spec, split] :
       {std::pair(&run.config.data.train, &data.train()), std::pair(&run.config.data.validation, &data.validation())})
    for (const std::string& line : skipped_lines(*spec, split->shape)) log.line(line);
  if (!by_teams) log.line("data: " + data.way());
}

// The log's lines about how ranks share samples, and shards.
void tell_sharing(RunLog& log, const ResolvedRun& run, bool shard_replicas, int ranks) {
  if (run.plan.shares_samples())
    for (const std::string& line : grid_lines(run.config, run.plan, run.shape.sample, ranks)) log.line(line);
  if (shard_replicas) log.line(replicas_text(run.config.data.shards, ranks));
}

RunResult result_of(const ResolvedRun& run, const Outcome& outcome, const std::optional<ModelNote>& best,
                    const Backend& backend, int ranks) {
  RunResult result = make_result(run.config, outcome.phases, outcome.seconds);
  result.best = best;
  if (run.config.method.top == TopRule::stem) {
    const EpochRecord& epoch = outcome.epochs.back();
    result.full_gflop = (epoch.gflop - epoch.statistics_gflop) * full_flop(run.config, run.plan, run.shape.sample) /
                        outcome.model_state.model.network().flop();
  }
  result.ranks = ranks;
  result.machine = this_machine();
  result.versions = these_versions(backend.description());
  return result;
}

}  // namespace

RunResult train_run(Config asked, const TrainRun& train, Comm& world) {
  std::optional<SignalsBeforeTraining> no_training_yet(std::in_place, world.root());
  const std::string asked_text = to_toml(asked);
  require_ranks(asked.run, world.size());
  world.limit(asked.run.timeout);
  require_same_grids(asked.run, world);
  world.sum_in_any_order(asked.run.deterministic);
  Warnings warnings(world);
  const ResolvedRun run = resolve_run(std::move(asked), warnings, world);
  const auto& [config, plan, shape, reasons, automatic, validation] = run;

  std::optional<RunFolder> folder;  // on the root
  collective_try(world, [&] {
    if (!world.root()) return;
    folder.emplace(config.run.folder, train.overwrite || train.more_epochs);
    require_kept_config(*folder, train.config_file, asked_text);
  });
  Checkpoints checkpoints(config, plan, shape.samples, world.size(), train.continued ? Epochs::more : Epochs::same);
  checkpoints.set_automatic(automatic);
  checkpoints.set_data(record_data(config.data, world), train.changed_data ? DataContents::any : DataContents::same);
  if (!train.overwrite) checkpoints.find(world);
  require_end(train, config.run.folder, checkpoints);
  if (!checkpoints.found()) check_start(plan, config, shape, world);
  const auto backend = make_backend(config.run, world);
  require_grids(plan, config, *backend);
  require_parts(config, backend->immediate());
  std::optional<StageGrids> grids;
  if (plan.shares_samples()) grids.emplace(*backend, config, plan, shape.sample, world);
  // Teams that are already known read what each needs, so that nothing is read twice.
  const bool by_teams = config.method.teams == TeamMode::concurrent && !config.method.team_shares.empty();
  const Data::Known known{shape, validation};
  Data data(config, world, by_teams || grids ? Data::Reading::later : Data::Reading::now, &known);
  const DataShare share = grids ? grids->share(first_phase(plan, checkpoints).resolution) : DataShare{world};
  if (grids) data.load(share);
  require_validation_logarithms(config, data, world);
  forget_earlier(checkpoints, config, train, world);
  const TimeEstimate estimate(phase_work(config, plan, shape.sample, {shape.samples, data.validation().shape.samples}),
                              world.size());
  const RunLogSettings settings{config.run.folder, train.out, train.terminal, config.run.tensorboard, estimate};
  RunLog log;
  collective_try(world, [&] {
    if (folder) folder->keep();  // from here on there are records
    log = open_run_log(config, plan, settings, checkpoints, folder, train);
  });
  if (!by_teams) warnings.add(class_warnings(config, data.class_counts(share.team)));
  warnings.add(row_warnings(shape.samples, data.validation().shape.samples));
  if (train.more_epochs) tell_more_epochs(plan, log);
  for (const std::string& line : warnings.take()) log.line("warning: " + line);
  tell_data(log, run, data, *backend, world.size(), by_teams);
  const bool shard_replicas = shard_by_shard(config, backend->immediate());
  tell_sharing(log, run, shard_replicas, world.size());

  no_training_yet.reset();
  const StopSignals signals(world.root());
  SaveTimes times(config.run, signals);
  Saving saving{checkpoints, times};
  Outcome outcome =
      run_pipeline(plan, config, {*backend, world, data, log, &saving, shard_replicas, grids ? &*grids : nullptr});
  RunResult result = result_of(run, outcome, save_models(*backend, outcome, config, world), *backend, world.size());
  result.automatic = checkpoints.automatic();
  log.finish(result);
  checkpoints.keep_last(world);
  forget_teams(config.run, world);
  return result;
}

}  // namespace mrmf
