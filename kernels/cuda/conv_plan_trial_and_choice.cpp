// Convolution plans tried in memory of their own, and the choice among them.
#include "kernels/cuda/conv_plan_trial_and_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device_and_step.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/timer.hpp"

namespace mrmf::cuda {

namespace {

constexpr std::uint32_t first_seed = 1, second_seed = 2, bias_seed = 3;

/// Elements of a pass's inputs (x and w; dy and w; x and dy) and of its result.
struct ConvSizes {
  explicit ConvSizes(const ConvProblem& problem);
  Index first = 0, second = 0, result = 0;
};

double first(Index i) { return pattern_value(first_seed, static_cast<std::uint64_t>(i)); }
double second(Index i) { return pattern_value(second_seed, static_cast<std::uint64_t>(i)); }

struct Coordinates {
  Index row = 0;
  Extent at{};
  Index channel = 0;
};

// The position of element i in a channels-last tensor.
Coordinates coordinates_of(Index i, const Extent& size, Index channels) {
  Coordinates coordinates;
  coordinates.channel = i % channels;
  i /= channels;
  for (std::size_t a = 3; a-- > 0;) {
    coordinates.at[a] = i % size[a];
    i /= size[a];
  }
  coordinates.row = i;
  return coordinates;
}

Index index_of(const Coordinates& coordinates, const Extent& size, Index channels) {
  Index i = coordinates.row;
  for (std::size_t a = 0; a < 3; ++a) i = i * size[a] + coordinates.at[a];
  return i * channels + coordinates.channel;
}

bool inside(const Extent& at, const Extent& size) {
  for (std::size_t a = 0; a < 3; ++a)
    if (at[a] < 0 || at[a] >= size[a]) return false;
  return true;
}

template <class Use>
void for_each_position(const Extent& size, Use use) {
  for (Index i = 0; i < size[0]; ++i)
    for (Index j = 0; j < size[1]; ++j)
      for (Index k = 0; k < size[2]; ++k) use(Extent{i, j, k});
}

double forward_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Coordinates y = coordinates_of(i, g.out(), g.out_channels);
  double sum = problem.bias ? pattern_value(bias_seed, static_cast<std::uint64_t>(y.channel)) : 0.0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Coordinates x{y.row, {}, 0};
    for (std::size_t a = 0; a < 3; ++a) x.at[a] = y.at[a] * g.stride[a] - g.pad_before[a] + tap[a] * g.dilation[a];
    if (!inside(x.at, g.in)) return;
    for (x.channel = 0; x.channel < g.in_channels; ++x.channel)
      sum += first(index_of(x, g.in, g.in_channels)) *
             second(index_of({y.channel, tap, x.channel}, g.kernel, g.in_channels));
  });
  return sum;
}

double data_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Coordinates x = coordinates_of(i, g.in, g.in_channels);
  double sum = 0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Coordinates y{x.row, {}, 0};
    for (std::size_t a = 0; a < 3; ++a) {
      const Index from = x.at[a] + g.pad_before[a] - tap[a] * g.dilation[a];
      if (from % g.stride[a] != 0) return;
      y.at[a] = from / g.stride[a];
    }
    if (!inside(y.at, g.out())) return;
    for (y.channel = 0; y.channel < g.out_channels; ++y.channel)
      sum += first(index_of(y, g.out(), g.out_channels)) *
             second(index_of({y.channel, tap, x.channel}, g.kernel, g.in_channels));
  });
  return sum;
}

double weights_element(const ConvProblem& problem, Index i) {
  const ConvGeometry& g = problem.geometry;
  const Coordinates w = coordinates_of(i, g.kernel, g.in_channels);  // the row is the output channel
  const Extent out = g.out();
  double sum = 0;
  for (Index row = 0; row < problem.rows; ++row)
    for_each_position(out, [&](const Extent& at) {
      Coordinates x{row, {}, w.channel};
      for (std::size_t a = 0; a < 3; ++a) x.at[a] = at[a] * g.stride[a] - g.pad_before[a] + w.at[a] * g.dilation[a];
      if (!inside(x.at, g.in)) return;
      sum += first(index_of(x, g.in, g.in_channels)) * second(index_of({row, at, w.row}, out, g.out_channels));
    });
  return sum;
}

ConvSizes::ConvSizes(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const Index x = problem.rows * product(g.in) * g.in_channels;
  const Index y = problem.rows * product(g.out()) * g.out_channels;
  switch (problem.pass) {
    case ConvPass::forward: first = x, second = g.weights(), result = y; break;
    case ConvPass::backward_data: first = y, second = g.weights(), result = x; break;
    case ConvPass::backward_weights: first = x, second = y, result = g.weights(); break;
  }
}

/// Element i of the result in double, for inputs pattern_value(first_seed, .) and pattern_value(second_seed, .).
double expected_element(const ConvProblem& problem, Index i) {
  switch (problem.pass) {
    case ConvPass::forward: return forward_element(problem, i);
    case ConvPass::backward_data: return data_element(problem, i);
    case ConvPass::backward_weights: return weights_element(problem, i);
  }
  return 0;
}

// Places spread over the result: the first, the last, and others at irregular distances in between.
std::vector<Index> sampled(Index count, int samples) {
  std::vector<Index> at{0, count - 1};
  for (int i = 1; i < samples - 1; ++i)
    at.push_back(static_cast<Index>(static_cast<double>(count - 1) * std::fmod(0.6180339887 * i, 1.0)));
  return at;
}

}  // namespace

Verdict attempt(const std::function<Verdict()>& trial) {
  try {
    return trial();
  } catch (const FaultError& error) {
    return {error.what()};
  }
}

ConvTrial::ConvTrial(Device& device, const ConvProblem& problem) : device_(device), problem_(problem) {
  buffers_.push_back(make_buffers());
  if (problem.bias) {
    bias_ = DeviceBuffer(static_cast<std::size_t>(problem.geometry.out_channels) * sizeof(float));
    fill_pattern({device.stream(), Storage::of(false)}, bias_seed, problem.geometry.out_channels, bias_.get());
  }
  device.synchronise();  // so that no plan is blamed for an earlier fault
}

ConvTrial::Buffers ConvTrial::make_buffers() const {
  const ConvSizes sizes(problem_);
  const auto element = static_cast<std::size_t>(device_.storage().bytes());
  const auto bytes = [&](Index count) { return static_cast<std::size_t>(count) * element; };
  Buffers made{DeviceBuffer(bytes(sizes.first)), DeviceBuffer(bytes(sizes.second)), DeviceBuffer(bytes(sizes.result))};
  fill_pattern(device_.work(), first_seed, sizes.first, made.a.get());
  fill_pattern(device_.work(), second_seed, sizes.second, made.b.get());
  return made;
}

// Makes so many buffers that a round over them reads and writes twice the size of the device's cache.
void ConvTrial::add_copies() {
  if (buffers_.size() > 1) return;
  int cache = 0;
  MRMF_CUDA(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device_.settings().device));
  const std::size_t each = buffers_[0].a.bytes() + buffers_[0].b.bytes() + buffers_[0].result.bytes();
  const std::size_t wanted = std::min<std::size_t>(most_timed_runs, 2 * static_cast<std::size_t>(cache) / each + 1);
  while (buffers_.size() < wanted && device_.free_memory() > 8 * each) buffers_.push_back(make_buffers());
}

void ConvTrial::run(const ConvPlan& plan, const Buffers& on) {
  ConvPointers pointers;
  pointers.result = on.result.get();
  pointers.bias = bias_.get<float>();
  switch (problem_.pass) {
    case ConvPass::forward: pointers.x = on.a.get(), pointers.w = on.b.get(); break;
    case ConvPass::backward_data: pointers.dy = on.a.get(), pointers.w = on.b.get(); break;
    case ConvPass::backward_weights: pointers.x = on.a.get(), pointers.dy = on.b.get(); break;
  }
  if (plan.workspace() > workspace_.bytes()) {
    workspace_ = {};
    workspace_ = DeviceBuffer(plan.workspace());
  }
  plan.run(device_.cudnn(), pointers, workspace_.get());
  if (problem_.bias && !plan.adds_bias()) {
    const ConvGeometry& g = problem_.geometry;
    add_bias(device_.work(), problem_.rows * product(g.out()), g.out_channels, bias_.get<float>(), on.result.get());
  }
}

// Each element of the weights' gradient is a sum over the whole batch, so only a few of them are checked.
void ConvTrial::choose_samples() {
  const bool weights = problem_.pass == ConvPass::backward_weights;
  for (const Index i : sampled(ConvSizes(problem_).result, weights ? 3 : 40))
    samples_.push_back({i, expected_element(problem_, i)});
}

float ConvTrial::result_element(Index i) const {
  const DeviceBuffer& result = buffers_[0].result;
  if (!device_.storage().bf16) {
    float got = 0;
    MRMF_CUDA(cudaMemcpy(&got, result.get<float>() + i, sizeof(got), cudaMemcpyDeviceToHost));
    return got;
  }
  Bf16 stored{};
  MRMF_CUDA(cudaMemcpy(&stored, result.get<Bf16>() + i, sizeof(stored), cudaMemcpyDeviceToHost));
  return to_float(stored);
}

// Steps are replayed, so it is a graph whose result is looked at; the first run, call by call, loads the kernels.
std::string ConvTrial::mistake(const ConvPlan& plan) {
  const DeviceBuffer& result = buffers_[0].result;
  run(plan, buffers_[0]);
  const CapturedGraph captured = capture(device_.stream(), [&] { run(plan, buffers_[0]); });
  // NaN first, so that elements that a plan leaves out are noticed.
  MRMF_CUDA(cudaMemsetAsync(result.get(), 0xFF, result.bytes(), device_.stream()));
  MRMF_CUDA(cudaGraphLaunch(captured.get(), device_.stream()));
  device_.synchronise();
  if (samples_.empty()) choose_samples();
  for (const auto& [i, want] : samples_) {
    const float got = result_element(i);
    // The inputs are exact in every precision. What remains is the rounding of the result (bf16: 2^-9; twice that where
    // the bias is added to it) and, for large sums, of float32 additions.
    const double tolerance = std::abs(want) * (device_.storage().bf16 ? 0x1p-8 : 1e-4) + 1e-2;
    if (!(std::abs(got - want) <= tolerance)) return fmt::format("element {} is {} and should be {}", i, got, want);
  }
  return "";
}

Verdict ConvTrial::judge(const ConvPlan& plan, bool timed, double best) {
  return attempt([&]() -> Verdict {
    if (std::string wrong = mistake(plan); !wrong.empty()) return {std::move(wrong)};
    if (!timed) return {};
    return {"", run_seconds(device_.stream(),
                            {[&](std::size_t i) { run(plan, buffers_[i % buffers_.size()]); }, [&] { add_copies(); }},
                            best)};
  });
}

namespace {

/// Marks in a stream and the seconds between them.
class Timing {
 public:
  explicit Timing(int marks) {
    for (int i = 0; i < marks; ++i) marks_.emplace_back(cudaEventDefault);
  }
  void mark(int i, cudaStream_t stream) const { marks_[static_cast<std::size_t>(i)].record(stream); }
  std::vector<double> seconds() const {
    marks_.back().synchronise();
    std::vector<double> times;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      float milliseconds = 0;
      MRMF_CUDA(cudaEventElapsedTime(&milliseconds, marks_[i - 1].get(), marks_[i].get()));
      times.push_back(1e-3 * milliseconds);
    }
    return times;
  }

 private:
  std::vector<Event> marks_;
};

}  // namespace

double run_seconds(cudaStream_t stream, const TimedWork& work, double best) {
  constexpr double launching = 1e-4, long_run = 1e-2;  // after a long run, launching and a warm cache do not matter
  const Timing rough(2);
  rough.mark(0, stream);
  work.run(0);
  rough.mark(1, stream);
  const double once = rough.seconds()[0];
  if (once > long_run || once > 2 * best + launching) return once;

  if (work.before_capture) work.before_capture();
  const int runs = std::clamp(static_cast<int>(2 * long_run / once), 5, most_timed_runs);
  const CapturedGraph graph = capture(stream, [&] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(runs); ++i) work.run(i);
  });
  // The first launch is not timed: while it runs, the host queues the others, so that the device never waits for it.
  constexpr int launches = 4;
  const Timing timing(launches);
  for (int i = 0; i < launches; ++i) {
    MRMF_CUDA(cudaGraphLaunch(graph.get(), stream));
    timing.mark(i, stream);
  }
  return median(timing.seconds()) / runs;
}

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
