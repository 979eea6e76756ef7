#include "src/training/epoch_clock.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

namespace mrmf {
namespace {

TimeShares time_shares_of(const EpochTime& time, Comm& team) {
  const auto over_ranks = [&](double seconds) {
    const std::vector<double> all = team.all_gather(seconds);
    const auto [least, most] = std::minmax_element(all.begin(), all.end());
    return RankSeconds{std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()), *least, *most};
  };
  return {over_ranks(time.io), over_ranks(time.compute), over_ranks(time.communication), over_ranks(time.hidden).mean};
}

// The mean over the ranks, because one saved time stands for all of them.
EpochTime mean_time(const EpochTime& time, Comm& team) {
  std::array<double, 4> parts{time.io, time.compute, time.communication, time.hidden};
  team.sum(parts);
  for (double& part : parts) part /= team.size();
  return {parts[0], parts[1], parts[2], parts[3]};
}

}  // namespace

void EpochClock::add(const SumTime& sums) {
  // A device may wait for a sum while the host gathers the next batch. That part already counts as I/O.
  const double waited = std::min(sums.waited, time_.compute);
  time_.compute -= waited;
  time_.communication += waited;
  time_.hidden += sums.hidden;
}

void EpochClock::end_epoch(EpochRecord& record, Comm& team) {
  record.total_seconds = total_seconds();
  record.seconds = record.total_seconds - epoch_start_;
  record.time_shares = time_shares_of(time_, team);
  epoch_start_ = record.total_seconds;
  time_ = {};
}

void EpochClock::save(TrainState& state, Comm& team) const {
  state.time = mean_time(time_, team);
  state.epoch_start = epoch_start_;
  state.total_seconds = total_seconds();
}

void EpochClock::resume_from(const TrainState& state) {
  earlier_ = std::max(earlier_, state.total_seconds);
  epoch_start_ = state.epoch_start;
  time_ = state.time;
}

}  // namespace mrmf
