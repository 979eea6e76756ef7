#include "src/training/team_sum.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "src/system/timer.hpp"

namespace mrmf {
namespace {

// By MPI: a sum that was started goes on beside backward as far as MPI moves it on by itself; each later start, and
// finish, move all of them on.
class TeamSum final : public RankSum {
 public:
  explicit TeamSum(Comm& team) : team_(&team) {}

  void sum(std::span<double> values) override {
    const Timer timer;
    team_->sum(values);
    time_.waited += timer.seconds();
  }
  void start(Span part) override {
    move_on();
    const Timer timer;
    under_way_.push_back(team_->start_sum(part));
    time_.waited += timer.seconds();
    since_ = {};
  }
  void finish() override {
    move_on();
    const Timer timer;
    for (PendingSum& sum : under_way_) sum.finish();
    under_way_.clear();
    time_.waited += timer.seconds();
  }
  SumTime take_time() override { return std::exchange(time_, {}); }

 private:
  // Calculation since the last call of MPI hid what is still under way at its end; what ended meanwhile may have ended
  // early, and is not counted.
  void move_on() {
    const double calculated = since_.seconds();
    const Timer timer;
    std::erase_if(under_way_, [](PendingSum& sum) { return sum.test(); });
    time_.waited += timer.seconds();
    if (!under_way_.empty()) time_.hidden += calculated;
  }

  Comm* team_;
  std::vector<PendingSum> under_way_;
  Timer since_;  // the last call of MPI
  SumTime time_;
};

void broadcast_bytes(Comm& team, std::span<std::byte> bytes) {
  std::string text(bytes.size(), '\0');
  std::memcpy(text.data(), bytes.data(), bytes.size());
  team.broadcast(text, 0);
  std::memcpy(bytes.data(), text.data(), bytes.size());
}

}  // namespace

std::unique_ptr<RankSum> make_team_sum(Backend& backend, Comm& team) {
  if (team.size() == 1) return nullptr;
  const Peers peers{team.rank(), team.size(), [&team](std::span<std::byte> bytes) { broadcast_bytes(team, bytes); }};
  if (auto own = backend.rank_sum(peers)) return own;
  return std::make_unique<TeamSum>(team);
}

}  // namespace mrmf
