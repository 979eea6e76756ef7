// The paper's figures, and which of them belong beside a run.
#include "src/compare/runs.hpp"

namespace mrmf {
namespace {

constexpr PaperColumn kBaseline{.validation_loss = 0.0400, .after_epochs = 84, .total_seconds = 3840.60};
constexpr PaperColumn kMrt{
    .validation_loss = 0.0399, .coarse_epochs = 35, .after_epochs = 41, .total_seconds = 2802.61};
constexpr PaperColumn kOneFusion{.validation_loss = 0.0398,
                                 .coarse_epochs = 35,
                                 .dense_epochs = 4,
                                 .after_epochs = 32,
                                 .stage_seconds = {709.20, -1},
                                 .finetune_seconds = 1541.00,
                                 .total_seconds = 2528.51,
                                 .other_run = true};
constexpr PaperColumn kTwoFusions{
    .validation_loss = 0.039, .stage_seconds = {166.35, 525.60}, .finetune_seconds = 1421.50, .total_seconds = 2113.45};

}  // namespace

const PaperColumn& paper_baseline() { return kBaseline; }
const PaperColumn& paper_mrt() { return kMrt; }

const PaperColumn* paper_figures(const RunResult& result) {
  if (result.model != "neuron_inverter") return nullptr;
  if (result.method == MethodName::baseline) return &kBaseline;
  if (result.method == MethodName::mrt) return &kMrt;
  if (result.method != MethodName::mrmf || result.top != TopRule::dense) return nullptr;
  if (result.resolutions.size() == 2) return &kOneFusion;
  return result.resolutions.size() == 3 ? &kTwoFusions : nullptr;
}

}  // namespace mrmf
