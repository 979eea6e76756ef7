#include "src/method/team_meeting.hpp"

#include <array>
#include <chrono>
#include <thread>

#include "src/system/timer.hpp"

namespace mrmf {
namespace {

// Waits for a second at most, and gently: the other team may share the cores.
bool done_soon(PendingSum& sum) {
  for (const Timer waiting; waiting.seconds() < 1;) {
    if (sum.test()) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return false;
}

}  // namespace

TeamMeeting::TeamMeeting(const Comm& world, const Comm& team, int second) : world_(world.duplicate()) {
  world_.sum_in_any_order(false);  // such a sum could not go on beside other calls
  if (team.root()) notice_.emplace(world_, world_.rank() == 0 ? second : 0);
}

bool TeamMeeting::other_waits(Comm& team) { return team.any(notice_ && notice_->arrived()); }

TeamMeeting::Met TeamMeeting::meet(TeamEnd mine, Comm& team) {
  const Timer waiting;
  if (notice_ && mine == TeamEnd::finished) notice_->send();
  std::array<float, 2> ends{mine == TeamEnd::unfinished ? 1.0F : 0.0F, mine == TeamEnd::stopped ? 1.0F : 0.0F};
  if (other_waits(team)) {
    world_.sum(ends);  // they need only answer
  } else {
    // Meanwhile a team looks after its own: its calls have a limit.
    for (PendingSum sum = world_.start_sum(ends); team.any(!done_soon(sum));) {
    }
  }
  const double waited = waiting.seconds();
  if (notice_) notice_->finish();
  const TeamEnd end = ends[1] > 0 ? TeamEnd::stopped : ends[0] > 0 ? TeamEnd::unfinished : TeamEnd::finished;
  return {end, waited, world_.max(waited)};
}

}  // namespace mrmf
