#include "kernels/cuda/autotune.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/conv_plan.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/runtime.hpp"
#include "kernels/cuda/step.hpp"
#include "kernels/cuda/storage.cuh"

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

struct Place {
  Index row = 0;
  Extent at{};
  Index channel = 0;
};

// The position of element i in a channels-last tensor.
Place place_of(Index i, const Extent& size, Index channels) {
  Place place;
  place.channel = i % channels;
  i /= channels;
  for (std::size_t a = 3; a-- > 0;) {
    place.at[a] = i % size[a];
    i /= size[a];
  }
  place.row = i;
  return place;
}

Index index_of(const Place& place, const Extent& size, Index channels) {
  Index i = place.row;
  for (std::size_t a = 0; a < 3; ++a) i = i * size[a] + place.at[a];
  return i * channels + place.channel;
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
  const Place y = place_of(i, g.out(), g.out_channels);
  double sum = problem.bias ? pattern_value(bias_seed, static_cast<std::uint64_t>(y.channel)) : 0.0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Place x{y.row, {}, 0};
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
  const Place x = place_of(i, g.in, g.in_channels);
  double sum = 0;
  for_each_position(g.kernel, [&](const Extent& tap) {
    Place y{x.row, {}, 0};
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
  const Place w = place_of(i, g.kernel, g.in_channels);  // the row is the output channel
  const Extent out = g.out();
  double sum = 0;
  for (Index row = 0; row < problem.rows; ++row)
    for_each_position(out, [&](const Extent& at) {
      Place x{row, {}, w.channel};
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

/// A convolution problem in its own memory. Times its plans, and checks their results before they are trusted: cuDNN
/// releases have computed large 3-D convolutions in bf16 wrongly (pytorch issue 163539).
class ConvTrial {
 public:
  ConvTrial(Device& device, const ConvProblem& problem);

  /// Seconds of one run as in a training step. Launches up to twenty runs as one record, which costs the host nothing;
  /// each uses memory that has left the device's cache. A rough time from a single run when that is long, or takes more
  /// than twice `best` seconds. FaultError when the plan fails.
  double seconds(const ConvPlan& plan, double best);
  /// Runs the plan on known values and compares elements all over the result with sums in double on the host. Returns
  /// what is wrong, or nothing.
  std::optional<std::string> mistake(const ConvPlan& plan);

 private:
  /// A pass's two inputs and its result.
  struct Buffers {
    DeviceBuffer a, b, result;
  };
  Buffers make_buffers() const;
  void add_copies();
  void run(const ConvPlan& plan, const Buffers& on);
  void choose_samples();

  Device& device_;
  ConvProblem problem_;
  struct Sample {
    Index at = 0;
    double expected = 0;
  };
  std::vector<Sample> samples_;   // of the result
  std::vector<Buffers> buffers_;  // several when one would stay in the cache
  DeviceBuffer bias_, workspace_;
};

// Places spread over the result: the first, the last, and others at irregular distances in between.
std::vector<Index> sampled(Index count, int samples) {
  std::vector<Index> at{0, count - 1};
  for (int i = 1; i < samples - 1; ++i)
    at.push_back(static_cast<Index>(static_cast<double>(count - 1) * std::fmod(0.6180339887 * i, 1.0)));
  return at;
}

constexpr int most_runs = 20;

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
  const std::size_t wanted = std::min<std::size_t>(most_runs, 2 * static_cast<std::size_t>(cache) / each + 1);
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
}

double ConvTrial::seconds(const ConvPlan& plan, double best) {
  constexpr double launching = 1e-4, long_run = 1e-2;  // after a long run, launching and a warm cache do not matter
  const Timing rough(2);
  rough.mark(0, device_.stream());
  run(plan, buffers_[0]);
  rough.mark(1, device_.stream());
  const double once = rough.seconds()[0];
  if (once > long_run || once > 2 * best + launching) return once;

  add_copies();
  const int runs = std::clamp(static_cast<int>(2 * long_run / once), 5, most_runs);
  const Record record = cuda::record(device_.stream(), [&] {
    for (std::size_t i = 0; i < static_cast<std::size_t>(runs); ++i) run(plan, buffers_[i % buffers_.size()]);
  });
  // The first launch is not timed: while it runs, the host queues the others, so that the device never waits for it.
  constexpr int launches = 4;
  const Timing timing(launches);
  for (int i = 0; i < launches; ++i) {
    MRMF_CUDA(cudaGraphLaunch(record.get(), device_.stream()));
    timing.mark(i, device_.stream());
  }
  std::vector<double> times = timing.seconds();
  std::ranges::sort(times);
  return times[times.size() / 2] / runs;
}

// Each element of the weights' gradient is a sum over the whole batch, so only a few of them are checked.
void ConvTrial::choose_samples() {
  const bool weights = problem_.pass == ConvPass::backward_weights;
  for (const Index i : sampled(ConvSizes(problem_).result, weights ? 3 : 40))
    samples_.push_back({i, expected_element(problem_, i)});
}

std::optional<std::string> ConvTrial::mistake(const ConvPlan& plan) {
  const DeviceBuffer& result = buffers_[0].result;
  // NaN first, so that elements that a plan leaves out are noticed.
  MRMF_CUDA(cudaMemsetAsync(result.get(), 0xFF, result.bytes(), device_.stream()));
  run(plan, buffers_[0]);
  device_.synchronise();
  const bool narrow = device_.storage().bf16;
  if (samples_.empty()) choose_samples();
  for (const auto& [i, want] : samples_) {
    float got = 0;
    if (narrow) {
      Bf16 stored{};
      MRMF_CUDA(cudaMemcpy(&stored, result.get<Bf16>() + i, sizeof(stored), cudaMemcpyDeviceToHost));
      got = to_float(stored);
    } else {
      MRMF_CUDA(cudaMemcpy(&got, result.get<float>() + i, sizeof(got), cudaMemcpyDeviceToHost));
    }
    // The inputs are exact in every precision. What remains is the rounding of the result (bf16: 2^-9) and, for large
    // sums, of float32 additions.
    const double tolerance = std::abs(want) * (narrow ? 0x1p-8 : 1e-4) + 1e-2;
    if (!(std::abs(got - want) <= tolerance)) return fmt::format("element {} is {} and should be {}", i, got, want);
  }
  return std::nullopt;
}

}  // namespace

PlanChooser::PlanChooser(Device& device) : device_(device), cache_(device.settings().plans, device.model().key()) {}

std::shared_ptr<const ConvPlan> PlanChooser::choose(const ConvProblem& problem) {
  std::shared_ptr<const ConvPlan>& plan = plans_[describe(problem)];
  if (!plan) plan = kept(problem);
  if (!plan) plan = found(problem);
  device_.reserve(Device::Scratch::workspace, plan->workspace());
  return plan;
}

// A plan that was the fastest here before. Checks it like a new one: the file may come from elsewhere.
std::shared_ptr<const ConvPlan> PlanChooser::kept(const ConvProblem& problem) {
  const std::optional<KeptPlan> entry = cache_.find(describe(problem));
  if (!entry || entry->workspace > device_.settings().workspace) return nullptr;
  std::shared_ptr<const ConvPlan> plan;
  try {
    plan = std::make_shared<const ConvPlan>(conv_plan_from_json(problem, device_.model(), entry->plan));
    if (!ConvTrial(device_, problem).mistake(*plan)) return plan;
  } catch (const FaultError& error) {  // a plan that cuDNN no longer accepts counts as none
    if (plan && device_.is_lost()) give_up(problem, *plan, error.what());
  }
  return nullptr;
}

std::shared_ptr<const ConvPlan> PlanChooser::found(const ConvProblem& problem) {
  PlanLimits limits;
  limits.workspace = device_.settings().workspace;
  limits.avoid = cache_.avoided(kind_of(problem));
  if (problem.deterministic) limits.candidates = 3, limits.compiled = 2;  // the first correct one will do
  std::vector<ConvPlan> candidates = conv_candidates(problem, device_.model(), limits);
  ConvTrial trial(device_, problem);
  ConvPlan* best = nullptr;
  double best_seconds = std::numeric_limits<double>::infinity();
  std::string mistakes;
  for (ConvPlan& candidate : candidates) {
    try {
      if (const auto mistake = trial.mistake(candidate)) throw FaultError(*mistake);
      // Timing could choose another plan in every run, and the plans' sums differ in the last bits.
      const double seconds = problem.deterministic ? 0 : trial.seconds(candidate, best_seconds);
      if (best == nullptr || seconds < best_seconds) {
        best = &candidate;
        best_seconds = seconds;
      }
    } catch (const FaultError& error) {  // a failing engine must not keep the others from their turn
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
      save();                      // if the file cannot be written, the next run measures again
    } catch (const FaultError&) {  // likewise when cuDNN cannot serialise the plan
    }
  }
  return std::make_shared<const ConvPlan>(std::move(*best));
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
