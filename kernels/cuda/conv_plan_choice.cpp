#include "kernels/cuda/conv_plan_choice.hpp"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/conv_trial.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/runtime.hpp"

namespace mrmf::cuda {
namespace {

/// All ways to do a problem, in the order in which they are tried: those with precompiled kernels, of which the last
/// add the bias in a pass of its own; then, unless one of these is right, what NVRTC compiles: that takes about
/// 0.4 s each, and none of them was the fastest of any problem on an H100.
class ConvAttempts {
 public:
  ConvAttempts(const ConvProblem& problem, const DeviceModel& device,
               const std::function<PlanLimits(const ConvProblem&)>& limits)
      : whole_(problem, device, limits(problem)) {
    if (!problem.bias) return;
    ConvProblem bare = problem;
    bare.bias = false;
    PlanLimits fewer = limits(bare);
    fewer.candidates /= 2;  // it costs another pass over the result
    bare_.emplace(bare, device, std::move(fewer));
  }

  struct ConvAttempt {
    ConvPlan plan;
    const ConvProblem& problem;  ///< the plan's own: perhaps without the bias
  };
  std::optional<ConvAttempt> next(bool found) {
    for (; stage_ < 4; ++stage_) {
      const bool compiled = stage_ >= 2;
      if (compiled && found) break;
      ConvCandidates* const from = stage_ % 2 == 0 ? &whole_ : bare_ ? &*bare_ : nullptr;
      if (from == nullptr) continue;
      if (std::optional<ConvPlan> plan = compiled ? from->next_compiled() : from->next())
        return ConvAttempt{std::move(*plan), from->problem()};
    }
    return std::nullopt;
  }
  std::string refusals() const {
    return whole_.refusals() + (bare_ ? "; without the bias: " + bare_->refusals() : std::string());
  }

 private:
  ConvCandidates whole_;
  std::optional<ConvCandidates> bare_;
  int stage_ = 0;
};

}  // namespace

PlanChooser::PlanChooser(Device& device)
    : device_(device), cache_(device.settings().plans, device.model().key()), note_(device.settings().plans) {
  const std::vector<EngineOfKind> left = take_left_notes(device.settings().plans);
  for (const EngineOfKind& crashed : left) cache_.avoid_on(crashed.kind, crashed.engine);
  if (!left.empty()) save();
}

std::shared_ptr<const ConvPlan> PlanChooser::choose(const ConvProblem& problem) {
  Choice choice = find(problem);
  if (!choice.plan) throw FaultError(choice.reason);
  return choice.plan;
}

PlanChooser::Choice PlanChooser::find(const ConvProblem& problem) {
  std::shared_ptr<const ConvPlan>& plan = plans_[describe(problem)];
  std::string reason;
  if (!plan) plan = kept(problem);
  if (!plan) plan = found(problem, reason);
  note_.strike_out();
  if (plan) device_.reserve(Device::Scratch::workspace, plan->workspace());
  return {plan, reason};
}

// A plan that was the fastest here before. Checks it like a new one: the file may come from elsewhere.
std::shared_ptr<const ConvPlan> PlanChooser::kept(const ConvProblem& problem) {
  const std::optional<KeptPlan> entry = cache_.find(describe(problem));
  if (!entry || entry->workspace > device_.settings().workspace) return nullptr;
  std::shared_ptr<const ConvPlan> plan;
  try {
    plan = std::make_shared<const ConvPlan>(conv_plan_from_json(problem, device_.model(), entry->plan));
  } catch (const FaultError&) {  // a plan that cuDNN no longer accepts counts as none
    return nullptr;
  }
  ConvProblem of_plan = problem;
  of_plan.bias = plan->adds_bias();
  if (cache_.avoided(kind_of(of_plan)).contains(plan->engine())) return nullptr;
  note_.trying({cache_.key(kind_of(of_plan)), plan->engine()});
  const Verdict verdict = ConvTrial(device_, problem).judge(*plan, false, 0);
  if (verdict.mistake.empty()) return plan;
  if (device_.is_lost()) give_up(of_plan, *plan, verdict.mistake);
  return nullptr;
}

std::shared_ptr<const ConvPlan> PlanChooser::found(const ConvProblem& problem, std::string& reason) {
  ConvAttempts attempts(problem, device_.model(), [this](const ConvProblem& each) { return limits_of(each); });
  ConvTrial trial(device_, problem);
  std::optional<ConvPlan> best;
  double best_seconds = std::numeric_limits<double>::infinity();
  std::string mistakes;
  while (std::optional<ConvAttempts::ConvAttempt> attempt = attempts.next(best.has_value())) {
    const Verdict verdict = trial.judge(attempt->plan, !problem.deterministic, best_seconds);
    if (!verdict.mistake.empty()) {
      if (device_.is_lost()) give_up(attempt->problem, attempt->plan, verdict.mistake);
      mistakes += "; " + attempt->plan.description() + ": " + verdict.mistake;
      continue;
    }
    if (!best || verdict.seconds < best_seconds) {
      best = std::move(attempt->plan);
      best_seconds = verdict.seconds;
    }
    // Timing could choose another plan in every run, and the plans' sums differ in the last bits.
    if (problem.deterministic) break;
  }
  if (!best) {
    reason = mistakes.empty() ? "cuDNN has no plan for " + describe(problem) + " on " + device_.model().key() + ": " +
                                    attempts.refusals()
                              : "no plan of cuDNN computes " + describe(problem) + " rightly on " + device_.name() +
                                    mistakes + "; update cuDNN, or use another run.precision";
    return nullptr;
  }
  if (!problem.deterministic) keep(problem, *best, best_seconds);
  return std::make_shared<const ConvPlan>(std::move(*best));
}

PlanLimits PlanChooser::limits_of(const ConvProblem& problem) {
  PlanLimits limits;
  limits.workspace = device_.settings().workspace;
  limits.avoid = cache_.avoided(kind_of(problem));
  limits.trying = [this, kind = cache_.key(kind_of(problem))](const std::string& engine) {
    note_.trying({kind, engine});
  };
  return limits;
}

void PlanChooser::keep(const ConvProblem& problem, const ConvPlan& plan, double seconds) {
  try {
    cache_.put(describe(problem), {plan.json(), 1e6 * seconds, plan.workspace()});
    save();                      // if the file cannot be written, the next run measures again
  } catch (const FaultError&) {  // likewise when cuDNN cannot serialise the plan
  }
}

// This process can compute nothing any more, so the next one must know.
void PlanChooser::give_up(const ConvProblem& problem, const ConvPlan& plan, const std::string& fault) {
  cache_.avoid(kind_of(problem), plan.engine());
  const std::string advice =
      save() ? "start again: " + cache_.file().string() + " now says that this engine is not to be tried"
             : "give run.plans a file that can be written, so that the next start does not try this engine";
  throw FaultError("cuDNN's " + plan.description() + " left " + device_.name() + " unusable when it was tried for " +
                   describe(problem) + " (" + fault + "); " + advice);
}

bool PlanChooser::save() const {
  const Settings& settings = device_.settings();
  if (settings.plans.empty() || !settings.replace_file) return false;
  try {
    settings.replace_file(settings.plans, cache_.text());
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace mrmf::cuda
