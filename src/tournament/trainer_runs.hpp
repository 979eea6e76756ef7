// What each trainer of a tournament trains, and what is checked of all of them before any begins.
#pragma once

#include <string>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/resolved_run.hpp"
#include "src/tournament/tournament.hpp"

namespace mrmf {

/// The run that one trainer of `whole` is: its part of the rows, its seed, its folder, and what tournament.settings
/// give it. Training it alone gives the same bits as in the tournament, until the first meeting. ConfigError for
/// settings that are none.
Config trainer_config(const Config& whole, int trainer);

/// Its share of its node's cores and memory, beside the other trainers. Collective over the world.
void share_node(Config& config, const Comm& team, Comm& world);

/// Rounds and steps as the trainers' last phases have room for them. ConfigError where some trainer has fewer steps
/// than the rounds need, or where models cannot travel between the trainers: other layers, other optimizers. Collective
/// over the world, of which this rank's trainer will train `run`.
TournamentConfig settle_meetings(const TournamentConfig& asked, const ResolvedRun& run, const TrainerTeams& teams,
                                 Comm& team, Comm& world);

}  // namespace mrmf
