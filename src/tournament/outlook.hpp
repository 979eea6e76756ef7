// What a tournament will take of a rank, before anything runs: for `mrmf plan` and `mrmf inspect`.
#pragma once

#include <optional>
#include <string>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

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

}  // namespace mrmf
