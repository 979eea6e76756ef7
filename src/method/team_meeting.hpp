// Where two teams that train at once meet when they have trained.
#pragma once

#include <optional>

#include "mpi/notice.hpp"

namespace mrmf {

/// How a team's training ended; of the two teams', the later one here holds for all. Unfinished: the other team is to
/// join it. Stopped: by a signal, and saved.
enum class TeamEnd { finished, unfinished, stopped };

class TeamMeeting {
 public:
  /// Of the teams that `world` is cut into, the second of which begins at rank `second`; `team` is this rank's.
  /// Collective over the world.
  TeamMeeting(const Comm& world, const Comm& team, int second);

  /// Is the other team waiting, its model trained? The same on every rank of `team`, over which it is collective.
  bool other_waits(Comm& team);

  struct Met {
    TeamEnd end;
    double waited = 0, longest = 0;  ///< seconds, of this rank and of all
  };
  /// Who is early waits here for the other team, and without a limit: it may need hours more. A rank that hangs is
  /// found by its own team, or by the other when that comes to a team that waits, and ends the job. Collective over the
  /// world, once.
  Met meet(TeamEnd mine, Comm& team);

 private:
  Comm world_;
  std::optional<Notice> notice_;  // of the teams' first ranks
};

}  // namespace mrmf
