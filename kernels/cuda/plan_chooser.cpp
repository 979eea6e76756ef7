#include "kernels/cuda/autotune.hpp"

#include <exception>
#include <limits>

#include "kernels/cuda/conv_trial.hpp"
#include "kernels/cuda/device.hpp"

namespace mrmf::cuda {

PlanChooser::PlanChooser(Device& device) : device_(device), cache_(device.settings().plans, device.model().key()) {}

std::shared_ptr<const ConvPlan> PlanChooser::choose(const ConvProblem& problem) {
  std::shared_ptr<const ConvPlan>& plan = plans_[describe(problem)];
  if (!plan) plan = kept(problem);
  if (!plan) plan = found(problem);
  device_.reserve(Device::Scratch::workspace, plan->workspace());
  return plan;
}

// A plan that was the fastest here before. It is checked like a new one: the file may come from elsewhere.
std::shared_ptr<const ConvPlan> PlanChooser::kept(const ConvProblem& problem) {
  const std::optional<KeptPlan> entry = cache_.find(describe(problem));
  if (!entry || entry->workspace > device_.settings().workspace) return nullptr;
  std::shared_ptr<const ConvPlan> plan;
  try {
    plan = std::make_shared<const ConvPlan>(conv_plan_from_json(problem, device_.model(), entry->plan));
    if (!ConvTrial(device_, problem).mistake(*plan)) return plan;
  } catch (const FaultError& error) {  // a plan that cuDNN no longer takes is as good as none
    if (plan && device_.is_lost()) give_up(problem, *plan, error.what());
  }
  return nullptr;
}

std::shared_ptr<const ConvPlan> PlanChooser::found(const ConvProblem& problem) {
  PlanLimits limits;
  limits.workspace = device_.settings().workspace;
  limits.avoid = cache_.avoided(kind_of(problem));
  if (problem.deterministic) limits.candidates = 3, limits.compiled = 2;  // the first that is right will do
  std::vector<ConvPlan> candidates = conv_candidates(problem, device_.model(), limits);
  ConvTrial trial(device_, problem);
  ConvPlan* best = nullptr;
  double best_seconds = std::numeric_limits<double>::infinity();
  std::string mistakes;
  for (ConvPlan& candidate : candidates) {
    try {
      if (const auto mistake = trial.mistake(candidate)) throw FaultError(*mistake);
      // Timing would choose now this plan, now that, and their sums differ in the last bits.
      const double seconds = problem.deterministic ? 0 : trial.seconds(candidate, best_seconds);
      if (best == nullptr || seconds < best_seconds) {
        best = &candidate;
        best_seconds = seconds;
      }
    } catch (const FaultError& error) {  // one engine that fails must not keep the others from their turn
      if (device_.is_lost()) give_up(problem, candidate, error.what());
      mistakes += "; " + candidate.description() + ": " + error.what();
      continue;
    }
    if (problem.deterministic) break;
  }
  if (best == nullptr)
    throw FaultError("no plan of cuDNN computes " + describe(problem) + " rightly on " + device_.name() + mistakes +
                     "; update cuDNN, or use another run.precision");
  if (!problem.deterministic) {
    try {
      cache_.put(describe(problem), {best->json(), 1e6 * best_seconds, best->workspace()});
      save();                      // where it cannot be written, the next run measures again
    } catch (const FaultError&) {  // likewise for a plan that cuDNN cannot write down
    }
  }
  return std::make_shared<const ConvPlan>(std::move(*best));
}

// Nothing can be computed in this process any more, so the next one must know.
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
