#include "src/method/coarse_probe.hpp"

#include <utility>
#include <vector>

#include "kernels/check.hpp"
#include "src/method/fusion.hpp"

namespace mrmf {
namespace {

// The numbers of a model in training, which a fusion moves away.
class ModelBackup {
 public:
  ModelBackup(Backend& backend, ModelState& model_state) : backend_(backend), spans_(model_state.optimizer.moments()) {
    spans_.push_back(model_state.model.params());
    spans_.push_back(model_state.model.state());
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
    : ctx_(ctx.apart(silent_)), plan_(plan), config_(config) {
  MRMF_CHECK(plan.stages.size() == 1, "a probe is of the coarse model of one stage");
}

ProbeResult CoarseProbe::run(ModelState& coarse) {
  begun_.reset();
  const Stage& stage = plan_.stages.front();
  ModelState dense = make_model_state(plan_, config_, ctx_, stage.fuse.to, stage.dense_seed);
  ModelBackup backup(ctx_.backend, coarse);
  fuse(ctx_.backend, coarse, dense, stage.fuse);
  backup.restore();
  Trainer trainer(ctx_, config_.training);
  ProbeResult probe = trainer.probe(dense, plan_.last, config_.method.probe);
  begun_.emplace(std::move(dense), probe.state);
  ctx_.require_data(stage.fuse.from);
  ctx_.backend.forget();  // a step of the probe may be recorded under a key of the coarse phase
  return probe;
}

CoarseProbe::ProbedModel CoarseProbe::take(ModelState& coarse) {
  if (!begun_) run(coarse);
  ProbedModel begun = std::move(*begun_);
  begun_.reset();
  return begun;
}

}  // namespace mrmf
