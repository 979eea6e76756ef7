// The trainer of all ranks.
#pragma once

#include <optional>

#include "src/training/trainer.hpp"

namespace mrmf {

/// One trainer while all ranks train together, a new one after two teams had the data and the time.
class AllRanks {
 public:
  AllRanks(const Plan& plan, const Config& config, const Workplace& at) : plan_(plan), config_(config), at_(at) {}

  /// Reads the data for all ranks where that is not done.
  Trainer& trainer();
  /// Seconds of the run.
  double elapsed() const { return trainer_ ? trainer_->total_seconds() : elapsed_ + since_.seconds(); }

  /// Two teams take over, and come back when so many seconds of the run have passed.
  void part() { meet(elapsed()); }
  void meet(double elapsed);

 private:
  void rehearse();

  const Plan& plan_;
  const Config& config_;
  const Workplace& at_;
  double elapsed_ = 0;  // of the run, when the last trainer ended...
  Timer since_;         // ...and since then
  std::optional<Trainer> trainer_;
};

}  // namespace mrmf
