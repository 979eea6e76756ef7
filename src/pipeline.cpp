#include "src/pipeline.hpp"

#include <span>

#include "src/fusion.hpp"

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

// Figure 2 of the paper. A coarse and a dense model are trained at two resolutions; the dense one takes over the coarse
// one's bottom layers; the fused model is the coarse one of the next, finer stage; the last one is finetuned.
Outcome run_pipeline(const Plan& plan, const Config& config, const Workplace& at) {
  Trainer trainer(at, config.training);
  if (!at.backend.immediate())
    for (const TrainStep& step : plan.training())
      trainer.rehearse(network_settings(config, plan, at.data.shape().sample, step.resolution), step);
  const std::size_t begin = at.saving ? at.saving->checkpoints.stages_behind() : 0;
  std::vector<StageRecord> done = earlier_records(at, begin);

  const TrainStep& first = begin == plan.stages.size() ? plan.last : plan.stages[begin].coarse;
  Learner coarse = make_learner(plan, config, at, first.resolution, first.seed);

  for (const Stage& stage : std::span(plan.stages).subspan(begin)) {
    done.push_back(trainer.train(coarse, stage.coarse));

    Learner dense = make_learner(plan, config, at, stage.fuse.to, stage.dense_seed);
    if (stage.dense) done.push_back(trainer.train(dense, *stage.dense));

    fuse(at.backend, coarse, dense, stage.fuse);
    coarse = std::move(dense);
    at.data.release(stage.fuse.from);
  }

  done.push_back(trainer.train(coarse, plan.last));
  return {std::move(coarse), std::move(done), trainer.total_seconds()};
}

Learner make_learner(const Plan& plan, const Config& config, const Workplace& at, const Extent& resolution,
                     std::uint64_t seed) {
  ModelSettings settings;
  settings.network = network_settings(config, plan, at.data.shape().sample, resolution);
  settings.seed = seed;
  return {at.backend, settings, config.training.optimizer, resolution};
}

}  // namespace mrmf
