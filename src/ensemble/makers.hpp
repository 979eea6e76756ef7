// Making what is left of an ensemble's members, several at once, on one rank or many.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/spec.hpp"

namespace mrmf {

/// Everything that making members needs, the same on all ranks.
struct Ensemble {
  EnsembleSpec spec{};
  std::vector<Point> points{};   ///< of the design, then those that rounds have added
  Index designed = 0;            ///< the former
  std::string folder{};          ///< of the part
  std::vector<Index> pending{};  ///< members to be made
  std::vector<int> attempts{};   ///< that each member had before
};

struct Made {
  Index members = 0;  ///< by all ranks
  int signal = 0;     ///< that one of them got; 0: none
};

/// Collective. Makes the pending members, and keeps each in rows.bin and in a journal as it is done. Ranks draw members
/// as they are ready for more. Ends early after a stop signal. `beat` is called now and then with the members that this
/// rank has made. DataError where they cannot be kept; what failed of a member is in the journal alone.
Made make_pending(const Ensemble& ensemble, Comm& world, const std::function<void(Index)>& beat);

}  // namespace mrmf
