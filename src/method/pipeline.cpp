#include "src/method/pipeline.hpp"

#include <optional>
#include <span>

#include "src/method/fusion.hpp"
#include "src/method/teams.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {
namespace {

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

// The records of the steps of the plan's first `count` stages, from an earlier start of the run.
std::vector<StageRecord> earlier_records(const Workplace& at, std::size_t count) {
  std::vector<StageRecord> records;
  if (at.saving)
    for (const StepHistory& step : at.saving->checkpoints.history())
      if (step.record.stage <= static_cast<int>(count)) records.push_back(step.record);
  return records;
}

}  // namespace

// Figure 2 of the paper. A coarse and a dense model are trained at two resolutions, one after the other or at once; the
// dense one takes over the coarse one's bottom layers; the fused model is the coarse one of the next, finer stage; the
// last one is finetuned.
Outcome run_pipeline(const Plan& plan, const Config& config, const Workplace& at) {
  const std::size_t begin = at.saving ? at.saving->checkpoints.stages_behind() : 0;
  std::vector<StageRecord> done = earlier_records(at, begin);
  AllRanks all(plan, config, at);
  if (begin == plan.stages.size() || !plan.stages[begin].at_once) all.trainer();  // its clock starts

  const TrainStep& first = begin == plan.stages.size() ? plan.last : plan.stages[begin].coarse;
  Learner coarse = make_learner(plan, config, at, first.resolution, first.seed);

  for (const Stage& stage : std::span(plan.stages).subspan(begin)) {
    if (stage.at_once) {
      const TeamSizes teams = choose_teams(config, plan, stage, at);
      all.part();
      TrainedAtOnce trained = train_at_once({plan, config, stage, teams}, coarse, at, all.elapsed());
      done.insert(done.end(), trained.records.begin(), trained.records.end());
      all.meet(trained.elapsed);
      all.trainer();
      fuse(at.backend, coarse, trained.dense, stage.fuse);
      coarse = std::move(trained.dense);
    } else {
      if (stage.coarse_trained) done.push_back(all.trainer().train(coarse, stage.coarse).record);

      Learner dense = make_learner(plan, config, at, stage.fuse.to, stage.dense_seed);
      if (stage.dense) done.push_back(all.trainer().train(dense, *stage.dense).record);

      fuse(at.backend, coarse, dense, stage.fuse);
      coarse = std::move(dense);
    }
    at.data.release(stage.fuse.from);
  }

  done.push_back(all.trainer().train(coarse, plan.last).record);
  return {std::move(coarse), std::move(done), all.elapsed()};
}

}  // namespace mrmf
