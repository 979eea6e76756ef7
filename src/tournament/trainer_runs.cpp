#include "src/tournament/trainer_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "src/data/data.hpp"
#include "src/data/memory_budget.hpp"
#include "src/plan/plan.hpp"
#include "src/run/tournament_record.hpp"
#include "src/system/host.hpp"
#include "src/training/optimizer.hpp"

namespace mrmf {
namespace {

/// A trainer's last phase.
struct LastPhase {
  Index steps = 0;  ///< of an epoch
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

}  // namespace mrmf
