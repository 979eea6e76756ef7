// From which round all trainers of a tournament continue.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/tournament/tournament.hpp"

namespace mrmf {

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
