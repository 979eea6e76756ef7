#include "src/run/save_times.hpp"

#include <cmath>

namespace mrmf {

// One maximum tells all: a signal's number, and below it in quarters what the root's clock says.
SaveTimes::Wish SaveTimes::ask(Comm& team) const {
  constexpr double save = 0.5, compare = 0.25;
  const auto due = [](double minutes, const Timer& since) { return minutes > 0 && since.seconds() >= 60 * minutes; };
  double wish = signals_->received();
  if (wish == 0 && team.root())
    wish = (due(checkpoint_.minutes, saved_) ? save : 0) + (due(check_ranks_, compared_) ? compare : 0);
  if (team.size() > 1) wish = team.max(wish);
  const double clock = wish - std::floor(wish);
  return {wish >= save, clock == compare || clock == save + compare, static_cast<int>(wish)};
}

}  // namespace mrmf
