#include "src/method/pipeline.hpp"

#include <span>

#include "src/method/all_ranks.hpp"
#include "src/method/concurrent_stage.hpp"
#include "src/method/fusion.hpp"

namespace mrmf {
namespace {

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
