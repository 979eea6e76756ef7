#include "src/tournament/tournament.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/rows/split.hpp"
#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"
#include "src/run/checkpoint.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_folder.hpp"
#include "src/system/host_info.hpp"
#include "src/training/model_and_optimizer.hpp"

namespace mrmf {
namespace {

/// A trainer's last phase.
struct LastPhase {
  Index steps = 0;  ///< steps of an epoch
  int epochs = 0;
  Index all() const { return steps * epochs; }
};

LastPhase last_phase(const ResolvedRun& run, const Comm& team) {
  const Phase& last = run.plan.last;
  OrderSettings order = order_settings(run.config.data, run.shape.samples, team.size() / Grid{last.grid}.ranks(), 0);
  order.batch = last.batch;
  order.repeats = boxes_of_each(run.config.data, run.shape.sample, last.resolution);
  return {steps_per_epoch(order), last.stop.epochs};
}

// What must be the same for models to travel: the layers that do, what the optimizer keeps of them, and on a grid how
// their weights are cut.
std::string travelling_text(const TournamentConfig& tournament, const ResolvedRun& run, const Comm& team) {
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(run.config, run.plan, run.shape.sample, run.plan.last.resolution));
  require_layers(tournament.exchange, network);
  std::string text = fmt::format("{} moments", moment_count(run.config.training.optimizer.name));
  if (const Grid grid{run.plan.last.grid}; grid.ranks() > 1)
    text += fmt::format(", {} of {}", grid.text(), team.size());
  for (const LayerEntry& entry : network.entries()) {
    const auto names = [&](const std::string& name) { return names_layer(name, entry.spec); };
    if (!tournament.exchange.empty() && std::ranges::none_of(tournament.exchange, names)) continue;
    text += fmt::format("; {} {}", entry.name, entry.layer ? entry.layer->signature() : "");
    text += fmt::format(" {} {}", entry.params.count, entry.state.count);
  }
  return text;
}

// Rows to score models on, which a part of one row has not.
void require_held_out(const ResolvedRun& run, Comm& team) {
  DatasetSpec held = run.config.data.train;
  held.piece.held = true;
  inspect_dataset(held, {run.config.data.train, run.shape}, team);
}

void require_rounds(const TournamentConfig& tournament, const std::vector<LastPhase>& trainers) {
  const Index needed = Index{tournament.rounds} * tournament.steps;
  for (std::size_t t = 0; t < trainers.size(); ++t)
    if (trainers[t].all() < needed || tournament.rounds == 0)
      throw ConfigError(fmt::format(
          "tournament.rounds: {} round{} of {} steps (tournament.steps) need {} steps of every trainer, and the last "
          "phase of trainer {} has {} ({} epochs of {} steps); all play equally many rounds: set fewer or shorter "
          "ones, or more epochs",
          std::max(tournament.rounds, 1), tournament.rounds > 1 ? "s" : "", tournament.steps,
          std::max(needed, Index{tournament.steps}) + (tournament.rounds == 0 ? 1 : 0), t, trainers[t].all(),
          trainers[t].epochs, trainers[t].steps));
}

}  // namespace

Config trainer_config(const Config& whole, int trainer) {
  const TournamentConfig& tournament = whole.tournament;
  Config own = whole;
  bool seeded = false;
  if (!tournament.settings.empty()) {
    const std::vector<std::string>& settings = tournament.settings[static_cast<std::size_t>(trainer)];
    own =
        parse_config(to_toml(whole), fmt::format("tournament.settings of trainer {}", trainer), settings, Writer::run);
    seeded = std::ranges::any_of(settings, [](const std::string& text) { return text.starts_with("training.seed"); });
  }
  if (!seeded) own.training.seed = whole.training.seed + static_cast<std::uint64_t>(trainer);
  RowPiece& piece = own.data.train.piece;
  piece.held_out = tournament.held_out;
  if (tournament.rows == TrainerRows::part) piece.of = tournament.trainers, piece.number = trainer;
  own.run.folder = trainer_folder(whole.run.folder, trainer);
  own.run.ranks = 0;
  own.tournament.trainers = 1;  // the rest stays, so that a trainer's checkpoint knows of it
  own.tournament.share.clear();
  own.tournament.settings.clear();
  return own;
}

void share_node(Config& config, const Comm& team, Comm& world) {
  Comm on_host = ranks_of_same(host_name(), world);
  const double teams_here = std::max(1.0, static_cast<double>(on_host.size()) / team.size());
  config.data.memory = config.data.memory.value_or(kShareOfMemory * host_memory() / 1e9) / teams_here;
}

TournamentConfig settle_meetings(const TournamentConfig& asked, const ResolvedRun& run, const TrainerTeams& teams,
                                 Comm& team, Comm& world) {
  TournamentConfig tournament = asked;
  if (tournament.selection == Selection::none) return tournament;
  const SumSettings& sums = run.plan.last.sums;
  const bool own_momenta = run.config.training.optimizer.name == OptimizerKind::lion &&
                           (sums.adds_directions() || sums.communication == Communication::automatic);
  std::string text;
  collective_try(world, [&] {
    if (own_momenta)
      throw ConfigError(
          "tournament: momenta of each rank's own do not travel between trainers; set training.momenta.rule = "
          "\"shared\" and training.communication to fp32, bf16 or int8, or tournament.selection = \"none\"");
    require_held_out(run, team);
    text = travelling_text(tournament, run, team);
  });
  if (!world.all_equal(std::hash<std::string>{}(text)))
    throw ConfigError(
        "tournament: the trainers' last models have other layers, optimizers or grids than each other, between which "
        "nothing can travel; give them the same, name the layers that all have in tournament.exchange, or set "
        "tournament.selection = \"none\"");
  const LastPhase mine = last_phase(run, team);
  const std::vector<double> steps = world.all_gather(static_cast<double>(mine.steps)),
                            epochs = world.all_gather(mine.epochs);
  std::vector<LastPhase> trainers;
  for (const int rank : teams.first) {
    const auto i = static_cast<std::size_t>(rank);
    trainers.push_back({static_cast<Index>(steps[i]), static_cast<int>(epochs[i])});
  }
  if (tournament.steps == 0)
    for (const LastPhase& trainer : trainers)
      tournament.steps = std::max(tournament.steps, static_cast<int>(trainer.steps));
  if (tournament.rounds == 0) {
    Index most = std::ranges::min(trainers, {}, &LastPhase::all).all();
    tournament.rounds = static_cast<int>(std::max<Index>(most - 1, 0) / tournament.steps);
  }
  require_rounds(tournament, trainers);
  return tournament;
}

namespace {

// Floats of the layers that travel: parameters, and statistics beside them.
struct TravelSize {
  Index params = 0, state = 0;
};

TravelSize size_of(const TournamentConfig& tournament, const Network& network) {
  require_layers(tournament.exchange, network);
  TravelSize all;
  for (const LayerEntry& entry : network.entries()) {
    bool travels = tournament.exchange.empty();
    for (const std::string& name : tournament.exchange) travels = travels || names_layer(name, entry.spec);
    if (travels) all.params += entry.params.count, all.state += entry.state.count;
  }
  return all;
}

}  // namespace

std::optional<TournamentOutlook> tournament_outlook(const Config& config, const Plan& plan, const Shape& sample,
                                                    std::optional<Index> samples) {
  const TournamentConfig& tournament = config.tournament;
  if (tournament.trainers == 1) return {};
  TournamentOutlook outlook{.trainers = tournament.trainers, .meets = tournament.selection != Selection::none};
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(config, plan, sample, plan.last.resolution));
  const auto [params, state] = size_of(tournament, network);
  constexpr Index bytes = sizeof(float);
  if (tournament.selection == Selection::pairwise) outlook.visitor_bytes = bytes * (params + state);
  if (outlook.meets)
    outlook.sent_bytes =
        bytes * (params * (1 + moment_count(config.training.optimizer, config.training.update_in_place)) + state);
  if (!samples) return outlook;
  RowPiece piece = trainer_config(config, 0).data.train.piece;
  std::vector<Index> rows(static_cast<std::size_t>(*samples));
  std::iota(rows.begin(), rows.end(), Index{0});
  outlook.trained = std::ssize(rows_of_piece(piece, rows));
  piece.held = true;
  outlook.held_out = std::ssize(rows_of_piece(piece, std::move(rows)));
  const int models = tournament.selection == Selection::pairwise ? 2 : outlook.meets ? 1 : 0;
  if (outlook.trained > 0)
    outlook.meeting_cost =
        static_cast<double>(models * outlook.held_out) / static_cast<double>(3 * outlook.trained);  // backward is two
  return outlook;
}

std::string to_text(const TournamentOutlook& outlook) {
  std::string text = fmt::format("tournament: {} trainers", outlook.trainers);
  if (outlook.trained > 0)
    text += fmt::format(", of which the first trains on {} rows and holds out {}", outlook.trained, outlook.held_out);
  if (!outlook.meets) return text + "; they do not meet\n";
  if (outlook.trained > 0) text += fmt::format("; a meeting costs {:.3f} of its epochs", outlook.meeting_cost);
  text += fmt::format("; a rank sends {:.3g} MB", static_cast<double>(outlook.sent_bytes) / 1e6);
  if (outlook.visitor_bytes > 0)
    text += fmt::format(", and keeps another model, {:.3g} MB, while both are compared: less than it takes to be saved",
                        static_cast<double>(outlook.visitor_bytes) / 1e6);
  return text + "\n";
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// What a checkpoint says of its round.
struct Round {
  int round = 0;
  bool finished = false;
};

Round round_of(const std::string& path) try {
  const std::string text = read_checkpoint_texts(path).progress;
  require_shallow_json(text, path);
  const Json state = Json::parse(text).at("state");
  const Json tournament = state.value("tournament", Json::object());
  return {tournament.contains("rounds") ? whole_number<int>(tournament.at("rounds")) : 0,
          !state.at("history").at("record").at("reason").get<std::string>().empty()};
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {
  throw DataError(
      fmt::format("{}: not a checkpoint of this mrmf ({}); begin anew with --overwrite", path, error.what()));
}

}  // namespace

bool file_exists(const std::string& path) {
  std::error_code none;
  return fs::exists(path, none);
}

bool SavedRounds::has(int round) const {
  if (dropped && round >= *dropped) return true;
  return last == round || before == round || (done && last && *last <= round) || (round == 0 && !last && !before);
}

SavedRounds saved_rounds(const std::string& folder, int phases) {
  SavedRounds saved;
  for (int phase = phases; phase > 0 && !saved.last && !saved.before; --phase) {
    const std::string path = checkpoint_file(folder, phase), before = path_before(path);
    if (file_exists(path)) {
      const Round round = round_of(path);
      saved.last = round.round;
      saved.done = round.finished && phase == phases;
    }
    if (file_exists(before)) saved.before = round_of(before).round;
  }
  return saved;
}

int common_round(const std::vector<SavedRounds>& trainers) {
  int latest = 0;
  for (const SavedRounds& trainer : trainers)
    latest = std::max({latest, trainer.last.value_or(0), trainer.before.value_or(0)});
  for (int round = latest; round > 0; --round)
    if (std::ranges::all_of(trainers, [&](const SavedRounds& trainer) { return trainer.has(round); })) return round;
  return 0;
}

void return_to_round(const std::string& folder, const SavedRounds& saved, int round) {
  if (saved.dropped && round >= *saved.dropped) return;
  if (saved.last == round || (saved.done && saved.last && *saved.last <= round)) return;
  if (saved.before != round) return remove_checkpoints(folder);
  for (const auto& entry : fs::directory_iterator(folder + "/checkpoints")) {
    const std::string path = entry.path().string();
    if (!path.ends_with("-before.h5")) continue;
    return rename_file(path, path.substr(0, path.rfind("-before.h5")) + ".h5");
  }
}

int settle_round(const SettledTrainer& mine, const TrainerTeams& teams, const std::vector<int>& dropped, Comm& world) {
  SavedRounds saved;
  collective_try(world, [&] {
    if (mine.team.root()) saved = saved_rounds(mine.folder, mine.phases);
  });
  const std::vector<double> last = world.all_gather(saved.last.value_or(-1)),
                            before = world.all_gather(saved.before.value_or(-1)),
                            done = world.all_gather(saved.done ? 1 : 0);
  std::vector<SavedRounds> all;
  const auto round_at = [](double round) { return round < 0 ? std::nullopt : std::optional(static_cast<int>(round)); };
  for (std::size_t t = 0; t < teams.first.size(); ++t) {
    const auto i = static_cast<std::size_t>(teams.first[t]);
    all.push_back({round_at(last[i]), round_at(before[i]), done[i] > 0});
    if (dropped[t] > 0) all.back().dropped = dropped[t];
  }
  const int round = common_round(all);
  collective_try(world, [&] {
    if (mine.team.root()) return_to_round(mine.folder, all[static_cast<std::size_t>(teams.of(world.rank()))], round);
  });
  return round;
}

}  // namespace mrmf
