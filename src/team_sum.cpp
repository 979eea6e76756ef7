#include "src/team_sum.hpp"

#include <cstring>
#include <utility>

#include "src/timer.hpp"

namespace mrmf {
namespace {

class TeamSum final : public RankSum {
 public:
  explicit TeamSum(Comm& team) : team_(&team) {}
  void sum(std::span<double> values) override {
    const Timer timer;
    team_->sum(values);
    seconds_ += timer.seconds();
  }
  void start(Span part) override {
    const Timer timer;
    team_->sum(part);
    seconds_ += timer.seconds();
  }
  void finish() override {}
  double take_seconds() override { return std::exchange(seconds_, 0.0); }

 private:
  Comm* team_;
  double seconds_ = 0;
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
