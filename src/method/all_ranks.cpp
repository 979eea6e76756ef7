#include "src/method/all_ranks.hpp"

namespace mrmf {

Trainer& AllRanks::trainer() {
  if (trainer_) return *trainer_;
  if (!at_.data.loaded()) at_.data.load(at_.team);  // the first reading is before the run's time
  trainer_.emplace(at_, config_.training, elapsed());
  at_.data.load(at_.team);
  rehearse();
  return *trainer_;
}

void AllRanks::meet(double elapsed) {
  trainer_.reset();
  elapsed_ = elapsed;
  since_ = {};
}

void AllRanks::rehearse() {
  for (const Stage& stage : plan_.stages) {
    if (stage.at_once) continue;
    if (stage.coarse_trained) trainer_->rehearse(config_, plan_, stage.coarse);
    if (stage.dense) trainer_->rehearse(config_, plan_, *stage.dense);
  }
  trainer_->rehearse(config_, plan_, plan_.last);
}

}  // namespace mrmf
