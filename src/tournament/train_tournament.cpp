#include "src/tournament/train_tournament.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/config/toml.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_folder.hpp"
#include "src/run/run_log.hpp"
#include "src/run/signals.hpp"
#include "src/system/host_info.hpp"
#include "src/tournament/tournament.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

namespace fs = std::filesystem;

// What all trainers have in common: resolved for all of the data by the first trainer's team.
Config resolve_whole(const Config& asked, int own, Warnings& warnings, Comm& team, Comm& world) {
  if (!world.all_equal(std::hash<std::string>{}(to_toml(asked))))
    throw FaultError("the ranks read different configurations; is the file the same on every node?");
  std::string text;
  collective_try(world, [&] {
    if (own != 0) return;
    Config all = asked;
    all.run.ranks = 0;
    text = to_toml(resolve_run(std::move(all), warnings, team).config);
  });
  world.broadcast(text, 0);
  return parse_config(text, "the resolved configuration", {}, Writer::run);
}

/// The run's own folder, which the world's first rank keeps; its calls do nothing on the others.
class TournamentFolder {
 public:
  /// Holds it, and looks at what is there. ConfigError where a tournament was begun there with other settings.
  TournamentFolder(const Config& whole, const TrainRun& train, const std::string& asked, Comm& world)
      : whole_(whole), path_(whole.run.folder), world_(world) {
    collective_try(world, [&] {
      if (!world.root()) return;
      folder_.emplace(path_, train.overwrite);
      check_folder(*folder_, train.config_file, asked);
      if (train.overwrite) return;
      earlier_ = read_tournament(path_);
      const std::string kept = path_ + "/config.toml";
      if (earlier_.empty() || !file_exists(kept)) return;
      require_continuable({read_config(kept, {}, Writer::run)}, {whole_}, Epochs::same, DataContents::any);
    });
  }

  /// The tournament begins, or goes on from this round: later records go.
  void open(const TrainRun& train, const Plan& plan, int round) {
    collective_try(world_, [&] {
      if (!folder_) return;
      folder_->keep();
      std::erase_if(earlier_, [&](const TournamentRecord& record) { return record.round < 1 || record.round > round; });
      RunLogSettings settings{path_, train.out, false, false};
      settings.continues = !earlier_.empty();
      log_ = RunLog(settings, folder_->is_own_config(train.config_file) ? "" : to_toml(whole_), to_json(plan));
      lines_.emplace(tournament_path(path_), LineFile::Start::append);
      std::vector<std::string> lines;
      for (const TournamentRecord& record : earlier_) lines.push_back(to_json(record));
      lines_->replace(lines);
    });
  }

  /// By trainer, the round in which it dropped out before this start, or 0. The same on every rank. Collective.
  std::vector<int> dropped(int trainers) {
    std::vector<std::int64_t> rounds(static_cast<std::size_t>(trainers));
    for (const TournamentRecord& record : earlier_)
      if (record.status == "dropped" && record.round > 0 && record.trainer < trainers)
        rounds[static_cast<std::size_t>(record.trainer)] = record.round;
    world_.broadcast(std::span(rounds), 0);
    return {rounds.begin(), rounds.end()};
  }

  RunLog& log() { return log_; }

  /// The records of one round, or of the end. On the first rank.
  void add(const std::vector<TournamentRecord>& records) {
    for (const TournamentRecord& record : records) lines_->write(to_json(record));
    lines_->sync();
  }

  /// The run's model and records are this trainer's from here on. On the first rank.
  void take_from(int trainer) {
    const std::string from = trainer_folder(path_, trainer);
    for (const auto& path_in : {last_model_path, best_model_path}) {
      if (!file_exists(path_in(from))) continue;
      std::error_code none;
      fs::remove(path_in(path_), none);
      fs::create_hard_link(path_in(from), path_in(path_), none);
      if (none) write_file(path_in(path_), read_file(path_in(from)), Replace::file);
    }
    write_file(path_ + "/plan.json", read_file(from + "/plan.json"), Replace::file);
    log_.take_over(histories_in(from), "");
    if (whole_.tournament.settings.empty()) return;
    Config config = trainer_config(whole_, trainer);  // which model the files hold
    config.run = whole_.run;
    config.tournament = whole_.tournament;
    config.data = whole_.data;
    write_file(path_ + "/config.toml", to_toml(config), Replace::file);
  }

 private:
  static std::vector<PhaseHistory> histories_in(const std::string& folder) {
    std::vector<PhaseHistory> histories;
    std::istringstream phases(read_file(folder + "/stages.jsonl")), epochs(read_file(folder + "/epochs.jsonl"));
    for (std::string line; std::getline(phases, line);)
      histories.push_back({phase_from_json(line, folder + "/stages.jsonl"), {}});
    for (std::string line; std::getline(epochs, line);) {
      const EpochRecord epoch = epoch_from_json(line, folder + "/epochs.jsonl");
      const auto its = std::ranges::find_if(histories, [&](const PhaseHistory& phase) {
        return phase.record.stage == epoch.stage && phase.record.role == epoch.role;
      });
      if (its != histories.end()) its->epochs.push_back(epoch);
    }
    return histories;
  }

  const Config& whole_;
  std::string path_;
  Comm& world_;
  std::optional<RunFolder> folder_;
  std::vector<TournamentRecord> earlier_;
  RunLog log_;
  std::optional<LineFile> lines_;
};

std::string round_text(const std::vector<TournamentRecord>& records, int rounds) {
  int plays = 0, replaced = 0;
  std::string gone;
  for (const TournamentRecord& record : records) {
    if (record.status == "dropped") gone += fmt::format("; trainer {} dropped out ({})", record.trainer, record.note);
    if (record.status != "plays") continue;
    ++plays;
    replaced += record.replaced ? 1 : 0;
  }
  return fmt::format("round {} of {}: {} of {} trainers take another's model{}", records.front().round, rounds,
                     replaced, plays, gone);
}

// Whether all ranks of the team have this error, and none is left in a call that it would not come out of.
bool is_of_all(const Error& error, const Comm& team) {
  return team.size() == 1 || dynamic_cast<const FaultError*>(&error) == nullptr ||
         dynamic_cast<const DivergedError*>(&error) != nullptr;
}

/// How a trainer's training has ended.
struct TrainerEnd {
  std::optional<RunResult> result{};  ///< none: it has dropped out
  std::string why{};                  ///< it has
};

// Trains this rank's trainer to the end of the tournament.
TrainerEnd train_mine(const ResolvedRun& run, const TrainRun& train, Tournament& tournament, TrainerError rule,
                      Warnings& warnings, Comm& team) {
  try {
    return {train_resolved(run, "", train, warnings, team)};
  } catch (const Stopped&) {
    tournament.stop();
    throw;
  } catch (const Error& error) {
    if (rule == TrainerError::end || tournament.in_round() || !is_of_all(error, team)) throw;  // which ends the job
    tournament.drop(error.what());
    return {{}, error.what()};
  }
}

// What the trainers are compared by in the end: lower is better.
double final_score(const RunResult& result, Monitor monitor) {
  const auto of = [&](double loss, const std::optional<MetricValue>& metric) {
    return monitored(monitor, loss, rising(metric));
  };
  if (result.best) return of(result.best->validation_loss, result.best->metric);
  return of(result.validation_loss, result.metric);
}

// How the training of all trainers has ended, on every rank.
std::vector<TrainerEnd> all_ends(const TrainerEnd& mine, int own, const TrainerTeams& teams, Comm& world) {
  std::vector<TrainerEnd> all;
  for (int t = 0; t < teams.count(); ++t) {
    const int root = teams.first[static_cast<std::size_t>(t)];
    std::string text = t == own && mine.result ? to_json(*mine.result) : "", why = t == own ? mine.why : "";
    world.broadcast(text, root);
    world.broadcast(why, root);
    all.push_back({text.empty() ? std::nullopt : std::optional(result_from_json(text, "a trainer's result")), why});
  }
  return all;
}

// The records of the end; the best trainer's says so. None is the best where all have dropped out.
std::vector<TournamentRecord> end_records(const std::vector<TrainerEnd>& ends, const TrainingConfig& training) {
  const Monitor monitor = training.monitor;
  std::vector<TournamentRecord> records;
  int best = -1;
  std::vector<double> scores;
  for (std::size_t t = 0; t < ends.size(); ++t) {
    const std::optional<RunResult>& result = ends[t].result;
    TournamentRecord record{
        .trainer = static_cast<int>(t), .status = result ? "ended" : "dropped", .note = ends[t].why};
    record.parent = record.trainer;
    scores.push_back(result ? final_score(*result, monitor) : kNoScore);
    record.own = monitor == Monitor::metric ? rising(*training.metric, -scores.back()) : scores.back();
    if (result && (best < 0 || scores.back() < scores[static_cast<std::size_t>(best)] ||
                   (std::isnan(scores[static_cast<std::size_t>(best)]) && !std::isnan(scores.back()))))
      best = static_cast<int>(t);
    records.push_back(record);
  }
  if (best >= 0) records[static_cast<std::size_t>(best)].best = true;
  return records;
}

// What the run leaves: the records of the end, and the best trainer's model and records.
RunResult end_tournament(TournamentFolder& folder, const std::vector<TrainerEnd>& ends, const TrainingConfig& training,
                         Comm& world) {
  const std::vector<TournamentRecord> records = end_records(ends, training);
  collective_try_on_root(world, [&] {
    folder.add(records);
    for (const TournamentRecord& record : records) folder.log().line(to_text(record));
  });
  const auto best = std::ranges::find(records, true, &TournamentRecord::best);
  if (best == records.end()) {
    const auto first = std::ranges::find_if(ends, [](const TrainerEnd& end) { return !end.why.empty(); });
    throw FaultError("all trainers of the tournament have dropped out; " +
                     (first != ends.end() ? "the first because of this: " + first->why : "tournament.jsonl says why"));
  }
  RunResult result = *ends[static_cast<std::size_t>(best->trainer)].result;
  for (const TrainerEnd& end : ends)
    if (end.result) result.total_seconds = std::max(result.total_seconds, end.result->total_seconds);
  collective_try_on_root(world, [&] {
    folder.take_from(best->trainer);
    folder.log().finish(result);
  });
  return result;
}

}  // namespace

RunResult train_tournament(const Config& asked, const TrainRun& train, Comm& world) {
  begin_launch(asked.run, world);
  if (train.more_epochs)
    throw ConfigError(asked.run.folder +
                      ": a tournament has no more epochs than it began with; begin a new run with model.start = " +
                      quoted(asked.run.folder));
  const TrainerTeams teams = make_trainer_teams(asked.tournament, world.size());
  const int own = teams.of(world.rank());
  Comm team = world.split(own);
  world.limit(0);  // trainers wait for each other, however long they take
  Warnings warnings(world), own_warnings(team);
  Config whole = resolve_whole(asked, own, warnings, team, world);
  std::optional<ResolvedRun> run;
  collective_try(world, [&] {
    Config config = trainer_config(whole, own);
    run.emplace(resolve_run(std::move(config), own_warnings, team));
  });
  share_node(run->config, team, world);
  whole.tournament = settle_meetings(whole.tournament, *run, teams, team, world);
  run->config.tournament.rounds = whole.tournament.rounds;
  run->config.tournament.steps = whole.tournament.steps;

  TournamentFolder folder(whole, train, to_toml(asked), world);
  const std::vector<int> dropped = folder.dropped(teams.count());
  const SettledTrainer settled{run->config.run.folder, static_cast<int>(run->plan.phases().size()), team};
  const int round = train.overwrite ? 0 : settle_round(settled, teams, dropped, world);
  folder.open(train, run->plan, round);
  collective_try(world, [&] {
    if (team.root() && file_exists(run->config.run.folder)) remove_result(run->config.run.folder, Models::keep);
  });
  RunLog& log = folder.log();
  for (const std::string& line : warnings.take()) log.line("warning: " + line);
  log.line(fmt::format(
      "tournament: {} trainers{}; their records are in {}/trainer-<n>", teams.count(),
      whole.tournament.selection == Selection::none
          ? " that do not meet"
          : fmt::format(", {} rounds, one after every {} steps", whole.tournament.rounds, whole.tournament.steps),
      whole.run.folder));

  Tournament tournament({whole.tournament, teams, whole.training.seed,
                         [&](const std::vector<TournamentRecord>& records) {
                           folder.add(records);
                           if (!records.empty()) log.line(round_text(records, whole.tournament.rounds));
                         }},
                        world, team);
  const int out = dropped[static_cast<std::size_t>(own)];
  const bool plays = out == 0 || out > round;
  Comm launched = world.split(plays ? 0 : 1);
  launched.limit(asked.run.timeout);
  TrainRun mine{
      .overwrite = train.overwrite, .changed_data = train.changed_data, .meetings = &tournament, .launched = &launched};
  TrainerEnd end;
  if (plays)
    end = train_mine(*run, mine, tournament, whole.tournament.on_error, own_warnings, team);
  else
    tournament.drop("");
  return end_tournament(folder, all_ends(end, own, teams, world), whole.training, world);
}

}  // namespace mrmf
