#include "src/method/pipeline.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "kernels/timer.hpp"
#include "src/run/model_file.hpp"
#include "src/training/cpu_kernel_autotuning.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {
namespace {

// The numbers of a model in training, which a fusion moves away.
class ModelBackup {
 public:
  ModelBackup(Backend& backend, ModelState& model_state) : backend_(backend), spans_(model_state.optimizer.moments()) {
    spans_.push_back(model_state.model.params());
    spans_.push_back(model_state.model.state());
    for (const Span own : model_state.workers.all()) spans_.push_back(own);
    for (const Span span : spans_) backend_.read(span, values_.emplace_back(span.size()));
  }
  void restore() {
    for (std::size_t i = 0; i < spans_.size(); ++i) backend_.write(values_[i], spans_[i]);
  }

 private:
  Backend& backend_;
  std::vector<Span> spans_;
  std::vector<std::vector<float>> values_;
};

}  // namespace

CoarseProbe::CoarseProbe(const RunContext& ctx, const Plan& plan, const Config& config)
    : ctx_(ctx.without_saving(silent_)), plan_(plan), config_(config) {
  MRMF_CHECK(plan.stages.size() == 1, "a probe is of the coarse model of one stage");
}

ProbeResult CoarseProbe::run(ModelState& coarse) {
  begun_.reset();
  const Stage& stage = plan_.stages.front();
  ModelState dense = make_model_state(plan_, config_, ctx_, stage.fuse.to, stage.dense_seed);
  ModelBackup backup(ctx_.backend, coarse);
  average_momenta(ctx_.backend, coarse.workers.momenta(), coarse.workers.count().all,
                  ctx_.team);  // as where the phase ends
  fuse(ctx_.backend, coarse, dense, stage.fuse);
  backup.restore();
  TrainingLoop loop(ctx_, config_.training);
  ProbeResult probe = loop.probe(dense, plan_.last, config_.method.probe);
  begun_.emplace(std::move(dense), probe.state);
  ctx_.make_data_ready(stage.fuse.from);
  ctx_.backend.drop_captures();  // a step of the probe may be recorded under a key of the coarse phase
  return probe;
}

CoarseProbe::ProbedModel CoarseProbe::take(ModelState& coarse) {
  if (!begun_) run(coarse);
  ProbedModel begun = std::move(*begun_);
  begun_.reset();
  return begun;
}

namespace {

// Makes the loop of all ranks, which read the data that two teams had before.
void make_loop(std::optional<TrainingLoop>& loop, const RunContext& ctx, const Plan& plan, const Config& config,
               double elapsed) {
  const bool alone = ctx.grids == nullptr;                   // else each phase takes its share by itself
  if (alone && !ctx.data.loaded()) ctx.data.load(ctx.team);  // the run's time begins after the first reading
  loop.emplace(ctx, config.training, elapsed);
  if (alone) ctx.data.load(ctx.team);
  for (const Stage& stage : plan.stages) {
    if (stage.at_once) continue;
    if (stage.coarse_trained) loop->autotune(config, plan, stage.coarse);
    if (stage.dense) loop->autotune(config, plan, *stage.dense);
  }
  loop->autotune(config, plan, plan.last);
}

// The records of the plan's first `count` stages, from an earlier start of the run.
std::vector<PhaseRecord> earlier_records(const RunContext& ctx, std::size_t count) {
  std::vector<PhaseRecord> records;
  if (ctx.saving)
    for (const PhaseHistory& phase : ctx.saving->checkpoints.history())
      if (phase.record.stage <= static_cast<int>(count)) records.push_back(phase.record);
  return records;
}

// A resumed run has its start in its checkpoint.
void start_model(const RunContext& ctx, const Config& config, ModelState& model_state) {
  if (config.model.start.empty() || (ctx.saving && ctx.saving->checkpoints.found())) return;
  const StartLayers start = match_start_layers(config, model_state.model.network(), ctx.team);
  take_start(ctx.backend, start, model_state.model, ctx.team);
  for (const std::string& line : start.lines) ctx.log.line(line);
}

// The next model, and where the phase that it is in stands if a probe has begun it.
struct Next {
  ModelState model;
  std::optional<TrainState> begun{};
};

// A stage whose models are trained one after the other.
Next train_stage(const RunContext& ctx, const Plan& plan, const Config& config, const Stage& stage, TrainingLoop& loop,
                 ModelState& coarse, std::vector<PhaseRecord>& done) {
  if (stage.coarse.stop.probe_epochs > 0) {
    CoarseProbe coarse_probe(ctx, plan, config);
    done.push_back(loop.train(coarse, stage.coarse, [&](ModelState& model) { return coarse_probe.run(model); }).record);
    if (done.back().reason == to_string(StopReason::slope)) {
      CoarseProbe::ProbedModel begun = coarse_probe.take(coarse);
      return {std::move(begun.model), std::move(begun.state)};
    }
  } else if (stage.coarse_trained) {
    done.push_back(loop.train(coarse, stage.coarse).record);
  }
  ModelState dense = make_model_state(plan, config, ctx, stage.fuse.to, stage.dense_seed);
  if (stage.dense) done.push_back(loop.train(dense, *stage.dense).record);
  fuse(ctx.backend, coarse, dense, stage.fuse);
  return {std::move(dense)};
}

}  // namespace

// Figure 2 of the paper. A coarse and a dense model are trained at two resolutions, one after the other or at once. The
// dense one takes over the coarse one's bottom layers. The fused model is the coarse model of the next, finer stage;
// the last one is finetuned.
Outcome run_pipeline(const Plan& plan, const Config& config, const RunContext& ctx) {
  choose_kernels(plan, config, ctx);
  const Timer start;
  const std::size_t begin = ctx.saving ? ctx.saving->checkpoints.stages_behind() : 0;
  std::vector<PhaseRecord> done = earlier_records(ctx, begin);
  std::optional<TrainingLoop> loop;  // for all ranks; none while two teams train
  if (begin == plan.stages.size() || !plan.stages[begin].at_once) make_loop(loop, ctx, plan, config, 0);

  const Phase& first = begin == plan.stages.size() ? plan.last : plan.stages[begin].coarse;
  ModelState coarse = make_model_state(plan, config, ctx, first.resolution, first.seed);
  start_model(ctx, config, coarse);

  std::optional<TrainState> begun;  // where the plan's last phase stands, if a probe has begun it
  for (const Stage& stage : std::span(plan.stages).subspan(begin)) {
    if (stage.at_once) {
      const TeamSizes teams = choose_teams(config, plan, stage, ctx);
      const double elapsed = loop ? loop->total_seconds() : start.seconds();
      loop.reset();
      TrainedAtOnce trained = train_at_once(ctx, plan, config, stage, teams, coarse, elapsed);
      done.insert(done.end(), trained.records.begin(), trained.records.end());

      make_loop(loop, ctx, plan, config, trained.elapsed);
      fuse(ctx.backend, coarse, trained.dense, stage.fuse);
      coarse = std::move(trained.dense);
    } else {
      Next next = train_stage(ctx, plan, config, stage, *loop, coarse, done);
      coarse = std::move(next.model);
      begun = std::move(next.begun);
    }
    ctx.data.release(stage.fuse.from);
  }

  PhaseHistory last = loop->train(coarse, plan.last, {}, std::move(begun));
  done.push_back(last.record);
  return {std::move(coarse), std::move(done), std::move(last.epochs), loop->total_seconds()};
}

}  // namespace mrmf
