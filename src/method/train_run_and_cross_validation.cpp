// A whole run, and a run for every fold of a split (cross-validation, `mrmf train --folds`).
#include "src/method/train_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "io/files/output_file.hpp"
#include "io/rows/dataset.hpp"
#include "io/rows/row_source_and_reader.hpp"
#include "io/rows/split_column_and_groups.hpp"
#include "kernels/errors.hpp"
#include "src/data/data.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/method/pipeline.hpp"
#include "src/plan/plan.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/model_file.hpp"
#include "src/run/run_folder.hpp"
#include "src/run/signals.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/training/batches.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {
namespace {

// The root opens the log; the others hold an empty one.
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
    remove_best_model(run);  // the one of fewer epochs, which the run has continued from
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

// The best rate is another for steps of other sizes.
std::vector<std::string> batch_warnings(const Config& config, const Plan& plan, int ranks) {
  const std::optional<int>& tuned = config.training.optimizer.tuned_batch;
  const Index rows = plan.last.batch * Index{ranks} / Grid{plan.last.grid}.ranks();
  if (!tuned || *tuned == rows) return {};
  return {
      fmt::format("the learning rate {:g} was tuned for steps of {} samples over all ranks, and these have {}: tune "
                  "again, or set training.batch so that they are as many",
                  plan.last.optimizer.learning_rate, *tuned, rows)};
}

// All rows that are left out, which may be very many, for whoever wants to look at them.
void list_left_out(const ResolvedRun& run, Data& data, const Comm& world) {
  std::string text;
  for (const auto& [spec, split] :
       {std::pair(&run.config.data.train, &data.train()), std::pair(&run.config.data.validation, &data.validation())})
    for (const std::string& rows : skipped_texts(*spec, split->shape)) text += rows + "\n";
  if (world.root() && !text.empty()) write_file(run.config.run.folder + "/left_out.txt", text, Replace::file);
}

std::vector<Phase*> phases_of(Plan& plan) {
  std::vector<Phase*> phases{&plan.last};
  for (Stage& stage : plan.stages) {
    phases.push_back(&stage.coarse);
    if (stage.dense) phases.push_back(&*stage.dense);
  }
  return phases;
}

// What the communication "auto" comes to, and a line that says so. It is measured once; a run that continues keeps what
// it took then.
Communication chosen_communication(const ResolvedRun& run, Checkpoints& checkpoints, bool on_cpu, Comm& world,
                                   RunLog& log) {
  if (!on_cpu || run.plan.shares_samples() || run.config.run.deterministic) {
    log.line("communication: fp32, as always with grids, on GPUs, and with run.deterministic");
    return Communication::fp32;
  }
  if (checkpoints.communication().empty()) {
    const auto backend = make_reference_backend();
    const Network last(*backend,
                       network_settings(run.config, run.plan, run.shape.sample, run.plan.resolutions().back()));
    const CommunicationChoice choice =
        choose_communication(run.config.training, static_cast<std::size_t>(last.params_size()), world);
    log.line(choice.text);
    checkpoints.set_communication(to_string(choice.scheme));
  }
  const std::vector<std::string> words = words_of<Communication>();
  const auto found = std::ranges::find(words, checkpoints.communication());
  if (found == words.end())
    throw DataError("the checkpoint has an unknown communication, \"" + checkpoints.communication() +
                    "\"; begin anew with --overwrite");
  return static_cast<Communication>(found - words.begin());
}

// The plan with what training.communication = "auto" has come to.
Plan with_communication(const ResolvedRun& run, Checkpoints& checkpoints, bool on_cpu, Comm& world, RunLog& log) {
  Plan plan = run.plan;
  std::vector<Phase*> measured = phases_of(plan);
  std::erase_if(measured, [](const Phase* phase) { return phase->sums.communication != Communication::automatic; });
  if (measured.empty()) return plan;
  const Communication chosen = chosen_communication(run, checkpoints, on_cpu, world, log);
  for (Phase* const phase : measured) phase->sums = in_another_way(phase->sums, chosen);
  require_ways(plan, run.config, world.size(), on_cpu);  // a run that continues may have other ranks
  return plan;
}

RunResult result_of(const ResolvedRun& run, const Outcome& outcome, const std::optional<ModelNote>& best,
                    const Backend& backend, int ranks) {
  RunResult result = make_result(run.config, outcome.phases, outcome.seconds);
  result.best = best;
  if (run.config.method.top == TopRule::stem) {
    const EpochRecord& epoch = outcome.epochs.back();
    result.full_gflop = (epoch.gflop - epoch.statistics_gflop) * full_flop(run.config, run.plan, run.shape.sample) /
                        (outcome.model_state.model.network().flop() *
                         static_cast<double>(boxes_of_each(run.config.data, run.shape.sample, epoch.resolution)));
  }
  result.ranks = ranks;
  result.machine = this_machine();
  result.versions = these_versions(backend.description());
  return result;
}

// The folder is the run's from here on; only the root holds it. Nothing is left of it where the run does not begin.
void hold_folder(std::optional<RunFolder>& folder, const ResolvedRun& run, const TrainRun& train,
                 const std::string& asked, Comm& world) {
  collective_try(world, [&] {
    if (!world.root()) return;
    folder.emplace(run.config.run.folder, train.overwrite || train.more_epochs);
    check_folder(*folder, train.config_file, asked);
  });
}

Checkpoints find_checkpoints(const ResolvedRun& run, const TrainRun& train, Comm& world) {
  Checkpoints checkpoints(run.config, run.plan, run.shape.samples, world.size(),
                          train.continued ? Epochs::more : Epochs::same);
  checkpoints.set_automatic(run.automatic);
  checkpoints.set_data(record_data(run.config.data, world),
                       train.changed_data ? DataContents::any : DataContents::same);
  if (!train.overwrite) checkpoints.find(world);
  return checkpoints;
}

// The grids of the stages, where ranks share samples, and this rank's data for the first phase that trains.
struct RunData {
  RunData(const ResolvedRun& run, Backend& backend, const Checkpoints& checkpoints, bool held_out, Comm& world)
      : by_teams(run.config.method.teams == TeamMode::concurrent && !run.config.method.team_shares.empty()),
        known{run.shape, run.validation, held_out},
        grids(run.plan.shares_samples()
                  ? std::optional<StageGrids>(std::in_place, backend, run.config, run.plan, run.shape.sample, world)
                  : std::optional<StageGrids>()),
        share(grids ? grids->share(first_phase(run.plan, checkpoints).resolution) : DataShare{world}),
        data(run.config, world, by_teams || grids ? Data::Reading::later : Data::Reading::now, &known) {
    if (grids) data.load(share);
  }

  bool by_teams;  // teams that are already known read what each needs, so that nothing is read twice
  Data::Known known;
  std::optional<StageGrids> grids;
  DataShare share;
  Data data;
};

// What people read before the first epoch.
void tell_run(RunLog& log, const ResolvedRun& run, const TrainRun& train, RunData& input, const Backend& backend,
              const std::vector<std::string>& lost, Warnings& warnings, int ranks) {
  if (!input.by_teams) warnings.add(class_warnings(run.config, input.data.class_counts(input.share.team)));
  warnings.add(batch_warnings(run.config, run.plan, ranks));
  warnings.add(row_warnings(run.shape.samples, input.data.validation().shape.samples));
  warnings.add(lost);
  if (train.more_epochs) tell_more_epochs(run.plan, log);
  for (const std::string& line : warnings.take()) log.line("warning: " + line);
  tell_data(log, run, input.data, backend, ranks, input.by_teams);
  tell_sharing(log, run, shard_by_shard(run.config, backend.synchronous()), ranks);
}

}  // namespace

void begin_launch(const RunConfig& run, Comm& world) {
  world.limit(run.timeout);
  check_launch(run, world);
  world.sum_reproducibly(run.deterministic);
}

RunResult train_run(Config asked, const TrainRun& train, Comm& world) {
  std::optional<SignalsBeforeTraining> no_training_yet(std::in_place, world.root());
  if (asked.tournament.trainers > 1)
    throw ConfigError("tournament.trainers is above 1, and this trains one model; start mrmf train, or set it to 1");
  const std::string asked_text = to_toml(asked);
  begin_launch(asked.run, world);
  Warnings warnings(world);
  const ResolvedRun run = resolve_run(std::move(asked), warnings, world);
  no_training_yet.reset();
  return train_resolved(run, asked_text, train, warnings, world);
}

RunResult train_resolved(const ResolvedRun& run, const std::string& asked, const TrainRun& train, Warnings& warnings,
                         Comm& world) {
  const SignalThread thread_of_signals;  // for a program that calls this as a library
  Comm& launched = train.launched != nullptr ? *train.launched : world;
  std::optional<SignalsBeforeTraining> no_training_yet(std::in_place, launched.root());
  const auto& [config, plan, shape, reasons, automatic, validation] = run;

  std::optional<RunFolder> folder;
  hold_folder(folder, run, train, asked, world);
  Checkpoints checkpoints = find_checkpoints(run, train, world);
  check_start(run, train, checkpoints, world);
  const auto backend = make_backend(config.run, launched);
  check_backend(run, *backend, world.size());
  RunData input(run, *backend, checkpoints, train.meetings != nullptr, world);
  check_validation(config, input.data, world);
  const std::vector<std::string> lost = digit_warnings(config, run.shape, world);

  forget_earlier(checkpoints, config, train, world);
  const TimeEstimate estimate(
      phase_work(config, plan, shape.sample, {shape.samples, input.data.validation().shape.samples}), world.size());
  const RunLogSettings settings{config.run.folder, train.out, train.terminal, config.run.tensorboard, estimate};
  RunLog log;
  collective_try(world, [&] {
    if (folder) folder->keep();  // from here on there are records
    log = open_run_log(config, plan, settings, checkpoints, folder, train);
  });
  tell_run(log, run, train, input, *backend, lost, warnings, world.size());
  collective_try(world, [&] { list_left_out(run, input.data, world); });

  const Plan trained = with_communication(run, checkpoints, backend->synchronous(), world, log);
  no_training_yet.reset();
  const StopSignals signals(launched.root());
  SavePolicy times(config.run, signals);
  Saving saving{checkpoints, times};
  RunContext ctx{*backend,
                 world,
                 input.data,
                 log,
                 &saving,
                 shard_by_shard(config, backend->synchronous()),
                 input.grids ? &*input.grids : nullptr};
  ctx.meetings = train.meetings;
  Outcome outcome = run_pipeline(trained, config, ctx);
  if (train.meetings != nullptr) train.meetings->end();

  RunResult result = result_of(run, outcome, save_models(*backend, outcome, config, world), *backend, world.size());
  result.automatic = checkpoints.automatic();
  log.finish(result);
  checkpoints.keep_last(world);
  forget_teams(config.run, world);
  return result;
}

// Cross-validation, `mrmf train --folds`: a run for every fold of a split. Declared in train_run.hpp.

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
