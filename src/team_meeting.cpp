#include "src/team_meeting.hpp"

#include "src/timer.hpp"

namespace mrmf {

TeamMeeting::TeamMeeting(const Comm& world, const Comm& team, int second) : world_(world.duplicate()) {
  if (team.root()) notice_.emplace(world_, world_.rank() == 0 ? second : 0);
}

bool TeamMeeting::other_waits(Comm& team) { return team.any(notice_ && notice_->arrived()); }

TeamMeeting::Met TeamMeeting::meet(TeamEnd mine, Comm& team) {
  team.barrier();
  const Timer waiting;
  if (notice_ && mine == TeamEnd::finished) notice_->send();
  const double limit = world_.limit();
  world_.limit(0);
  const auto end = static_cast<TeamEnd>(static_cast<int>(world_.max(static_cast<double>(mine))));
  world_.limit(limit);
  const double waited = waiting.seconds();
  if (notice_) notice_->finish();
  return {end, waited, world_.max(waited)};
}

}  // namespace mrmf
