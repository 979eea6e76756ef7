// What comes before the trainers of a tournament begin, or continue.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/preflight.hpp"
#include "src/plan/plan.hpp"
#include "src/tournament/tournament.hpp"

namespace mrmf {

// What each trainer of a tournament trains, and what is checked of all of them before any begins.

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

// What a tournament will take of a rank, before anything runs: for `mrmf plan` and `mrmf inspect`.

struct TournamentOutlook {
  int trainers = 1;
  bool meets = false;
  Index trained = 0, held_out = 0;  ///< rows of the first trainer; 0: the number of samples is not known
  Index visitor_bytes = 0;          ///< of another trainer's model, kept beside a rank's own while both are compared
  Index sent_bytes = 0;             ///< what a rank sends at a meeting, where its model is taken
  double meeting_cost = 0;          ///< arithmetic of a meeting, in epochs of a trainer
};

/// None where there is no tournament. `samples`: training rows of all trainers together, where they are known.
std::optional<TournamentOutlook> tournament_outlook(const Config& config, const Plan& plan, const Shape& sample,
                                                    std::optional<Index> samples);

std::string to_text(const TournamentOutlook& outlook);  ///< a line

// From which round all trainers of a tournament continue.

/// The rounds that a trainer can continue from: those of its last checkpoint and of the one before.
struct SavedRounds {
  std::optional<int> last, before;
  bool done = false;             ///< the last one is of the end of its training, so that it has no later round
  std::optional<int> dropped{};  ///< it dropped out in this round, counted from 1: it needs none that is not before
  bool has(int round) const;
};

/// Whether there is a file or folder that can be seen.
bool file_exists(const std::string& path);

/// What the checkpoints in a trainer's folder say; `phases` is the number of phases of its plan. On one rank. DataError
/// for a damaged file.
SavedRounds saved_rounds(const std::string& folder, int phases);

/// The latest round that all trainers have; 0, where they began, if there is no other.
int common_round(const std::vector<SavedRounds>& trainers);

/// Makes the trainer's checkpoint of this round its last one, or removes its checkpoints where it has none of round 0.
/// On one rank. A kill meanwhile does no harm: the same is done again.
void return_to_round(const std::string& folder, const SavedRounds& saved, int round);

/// Which trainer this rank is of.
struct SettledTrainer {
  std::string folder;
  int phases = 1;  ///< of its plan
  Comm& team;
};

/// All of that for a tournament that continues. `dropped`: by trainer, the round in which it dropped out, or 0.
/// Collective over the world.
int settle_round(const SettledTrainer& mine, const TrainerTeams& teams, const std::vector<int>& dropped, Comm& world);

}  // namespace mrmf
