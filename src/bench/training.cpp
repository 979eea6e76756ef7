// `mrmf bench training` and `mrmf bench parity`, and the training steps that benchmarks time: as a whole, and unit by
// unit.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ostream>
#include <utility>

#include "kernels/cpu/instruction_set.hpp"
#include "kernels/random.hpp"
#include "kernels/timer.hpp"
#include "src/bench/bench.hpp"
#include "src/system/backend_choice.hpp"
#include "src/training/data_and_spatial_parallel.hpp"

namespace mrmf {

// `mrmf bench training` and `mrmf bench parity`, and the steps that they time.

void fill_normal(Span values, std::uint64_t seed) {
  constexpr std::size_t period = 1000003;  // enough; drawing more would take longer than the measurement
  Rng rng(seed);
  const std::size_t drawn = std::min(values.size(), period);
  for (float& value : values.first(drawn)) value = static_cast<float>(rng.normal());
  for (std::size_t i = drawn; i < values.size(); ++i) values[i] = values[i - period];
}

Shape target_shape(const LossSettings& loss, const Shape& output) {
  Shape shape = output;
  if (loss.task() == Task::classes) shape.channels = 1;
  return shape;
}

void fill_targets(Span targets, const LossSettings& loss, Index classes) {
  fill_normal(targets, 2);
  if (loss.task() == Task::regression) return;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto number = static_cast<Index>(i);
    targets[i] = static_cast<float>(loss.task() == Task::classes ? number % classes : number % 2);
  }
}

std::string BenchSettings::title() const {
  return fmt::format("{}, sample {}, batch {}", name, to_string(network.sample), batch());
}

namespace {

constexpr Index kMostBenchSteps = 100000;

struct Outcome {
  std::vector<float> losses;
  std::uint64_t parameters = 0;  // a hash
};

Outcome run(Backend& backend, BenchSteps& steps, int count) {
  for (int i = 0; i < count; ++i) {
    steps.load();
    steps.step();
  }
  if (count == 0) return {};
  return {steps.losses(), arena_hash(backend, steps.model_state().model.params())};
}

// Relative to the largest loss so far: where a loss falls to a fiftieth within a few steps, what the first steps'
// roundings left in the parameters does not.
double worst_difference(const std::vector<float>& device, const std::vector<float>& host) {
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    largest = std::max(largest, std::abs(double{host[i]}));
    const double difference = std::abs(double{device[i]} - host[i]) / largest;
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

std::string exact(const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (const float value : values) texts.push_back(std::isfinite(value) ? fmt::format("{:.9g}", value) : "null");
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

BenchSteps::BenchSteps(Backend& backend, const BenchSettings& settings)
    : backend_(backend),
      model_state_(backend, settings.model(), settings.optimizer, {1, 1, 1}),
      batch_(settings.batch()),
      ids_(static_cast<std::size_t>(settings.batch())),
      losses_(backend.allocate(kMostBenchSteps)) {
  const Network& network = model_state_.model.network();
  x_.resize(static_cast<std::size_t>(network.input().count()));
  const Shape targets = target_shape(settings.loss, network.output());
  targets_.resize(static_cast<std::size_t>(targets.count()));
  fill_normal(x_, 1);
  fill_targets(targets_, settings.loss, network.output().channels);
  std::iota(ids_.begin(), ids_.end(), 0);
  feed_ = backend.feed(network.input(), targets.per_sample());
  loss_ = backend.loss(settings.loss, network.output(), targets.channels);
  load();
}

void BenchSteps::load() {
  const Feed::HostBatch host = feed_->host(batch_);
  // A feed uses at most two buffers in turn, and they keep their contents. Further loads skip the copy on the host,
  // which is not what is measured.
  if (loads_++ < 2) {
    std::ranges::copy(x_, host.x.begin());
    std::ranges::copy(targets_, host.targets.begin());
  }
  loaded_ = feed_->submit(batch_);
}

void BenchSteps::step() {
  MRMF_CHECK(done_ < kMostBenchSteps, "too many steps for one benchmark");
  Model& model = model_state_.model;
  StepContext now{
      .training = true, .seed = 1, .updates_done = model_state_.optimizer.steps(), .ids = ids_, .batch_index = done_++};
  now.loss_weight = 1.0F / static_cast<float>(batch_);
  model_state_.optimizer.advance(model_state_.optimizer.settings().learning_rate, now);
  backend_.begin(now);
  backend_.run_captured(static_cast<std::uint64_t>(batch_), [&] {
    const ConstTensor y = model.forward(now, loaded_.x);
    loss_->run(now, y, loaded_.targets, model.output_gradient(batch_), model.loss());
    model.backward(now, loaded_.x);
    model_state_.update(now);
    model.constrain(model_state_.optimizer.steps());
    backend_.append_history(now, model.loss(), losses_.span());
  });
}

std::vector<float> BenchSteps::losses() {
  std::vector<float> values(static_cast<std::size_t>(done_));
  backend_.read(losses_.span().first(values.size()), values);
  for (float& value : values) value /= static_cast<float>(batch_);
  return values;
}

void warm_up(Backend& backend, BenchSteps& steps) {
  constexpr int kWarmUp = 3;  // a device runs the first step call by call, captures the second and replays the rest
  const Timer warming;        // a device also needs a moment until its clocks are up
  for (int i = 0; i < kWarmUp || (!backend.synchronous() && warming.seconds() < 0.5); ++i) {
    steps.step();
    if (i >= kWarmUp) backend.finish();
  }
  backend.finish();
}

std::vector<double> step_times(Backend& backend, BenchSteps& steps, int timed, bool load) {
  const int at_a_time = backend.synchronous() ? 1 : std::min(10, timed);
  std::vector<double> seconds;
  for (int done = 0; done < timed; done += at_a_time) {
    const Timer timer;
    for (int i = 0; i < at_a_time; ++i) {
      if (load) steps.load();
      steps.step();
    }
    backend.finish();
    seconds.push_back(timer.seconds() / at_a_time);
  }
  return seconds;
}

double step_seconds(Backend& backend, BenchSteps& steps, int timed, bool load) {
  return median(step_times(backend, steps, timed, load));
}

namespace {

// Operations of a step's convolutions and dense layers, without those of gradients that nobody needs.
double step_flop(const Model& model) {
  double flop = 0;
  for (const Unit& unit : model.units()) flop += unit_work(model.network(), unit, sizeof(float)).flop;
  return flop;
}

}  // namespace

void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out) {
  BenchSteps steps(backend, settings);
  const Outcome first = run(backend, steps, settings.first);
  warm_up(backend, steps);
  const auto peak_now = [&] { return backend.synchronous() ? cpu::fma_peak(omp_get_max_threads()) : 0; };
  const double peak_before = peak_now();
  const std::vector<double> times = step_times(backend, steps, settings.steps, false);
  const double peak = std::max(peak_before, peak_now());  // a shared machine may lack a core at one of the two times
  const double step = median(times), mean = std::reduce(times.begin(), times.end()) / static_cast<double>(times.size());
  const double loaded = backend.synchronous() ? step : step_seconds(backend, steps, settings.steps, true);
  out << fmt::format("{}: {}\n", settings.title(), backend.description());
  out << fmt::format("forward, loss, backward and update: {:.3f} ms (median over {} steps)", 1e3 * step,
                     settings.steps);
  if (!backend.synchronous()) out << fmt::format("; with each batch copied to the device: {:.3f} ms", 1e3 * loaded);
  const double rate = step_flop(steps.model_state().model) / step;
  if (peak > 0)
    out << fmt::format(
        "\nproducts: {:.1f} GFLOP/s, {:.0f} % of the {:.1f} that float32 multiply-adds in registers reach", 1e-9 * rate,
        100 * rate / peak, 1e-9 * peak);
  const std::string json = fmt::format(
      "{{\"samples_per_second\": {:.6g}, \"step_seconds\": {:.7g}, \"mean_step_seconds\": {:.7g}, "
      "\"loader_samples_per_second\": {:.6g}, "
      "\"batch\": {}, \"steps\": {}, \"gflops\": {:.6g}, \"peak_gflops\": {}{}}}\n",
      settings.batch() / step, step, mean, settings.batch() / loaded, settings.batch(), settings.steps, 1e-9 * rate,
      peak > 0 ? fmt::format("{:.6g}", 1e-9 * peak) : "null",
      settings.first > 0
          ? fmt::format(", \"losses\": {}, \"parameters_hash\": \"{:016x}\"", exact(first.losses), first.parameters)
          : "");
  if (settings.profile && !backend.synchronous()) {
    backend.finish();
    cuda_profile(true);
    steps.step();
    backend.finish();
    cuda_profile(false);
  }
  out << "\n" << json;
  settings.json.write(json);
}

void bench_parity(const Parity& parity, const BenchSettings& settings, std::ostream& out) {
  BenchSteps device_steps(parity.device, settings), host_steps(parity.host, settings);
  const Outcome device = run(parity.device, device_steps, settings.steps);
  const Outcome host = run(parity.host, host_steps, settings.steps);
  out << fmt::format("{}, SGD: loss per sample\n{:>5} {:>14} {:>14}\n", settings.title(), "step", parity.device.name(),
                     parity.host.name());
  for (std::size_t i = 0; i < host.losses.size(); ++i)
    out << fmt::format("{:>5} {:>14.7f} {:>14.7f}\n", i + 1, device.losses[i], host.losses[i]);
  const double worst = worst_difference(device.losses, host.losses);
  settings.json.write(
      fmt::format("{{\"losses\": {{\"device\": {}, \"host\": {}}}, \"parameters_hash\": \"{:016x}\", "
                  "\"worst\": {:.3g}, \"tolerance\": {:g}, \"backend\": \"{}\"}}\n",
                  exact(device.losses), exact(host.losses), device.parameters, std::min(worst, 1e30), parity.tolerance,
                  parity.device.description()));
  if (!(worst <= parity.tolerance))
    throw FaultError(fmt::format("{} and {} part by {:.2g} of the largest loss within {} steps, more than {:g}",
                                 parity.device.name(), parity.host.name(), worst, settings.steps, parity.tolerance));
  out << fmt::format("{} steps agree within {:.2g} of the largest loss (allowed {:g}); parameters {:016x}\n",
                     settings.steps, worst, parity.tolerance, device.parameters);
}

// Training steps with a clock around every unit, and tables made of several rounds of them. Declared in bench.hpp.

namespace {

/// Messages that nobody sends.
class Silence final : public Messages {
 public:
  int rank() const override { return 0; }
  void start(std::span<const Message>, std::span<const Message>) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }
};

/// Sums over this rank alone.
class OwnSum final : public AllReduce {
 public:
  void sum(std::span<double>) override {}
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }
};

}  // namespace

TimedSteps::TimedSteps(Backend& backend, const ModelSettings& settings, const OptimizerSettings& optimizer,
                       const LossSettings& loss_settings)
    : backend_(backend), model_state_(backend, settings, optimizer, {1, 1, 1}) {
  Model& model = model_state_.model;
  if (settings.grid.ranks() > 1) silence_ = std::make_unique<Silence>(), own_sum_ = std::make_unique<OwnSum>();
  input_ = backend.allocate(model.input().count());
  fill_normal(input_.span(), 1);
  target_shape_ = target_shape(loss_settings, model.output());
  target_ = backend.allocate(target_shape_.count());
  fill_targets(target_.span(), loss_settings, model.output().channels);
  loss_op_ = backend.loss(loss_settings, model.output(), target_shape_.channels);
  ids_.resize(static_cast<std::size_t>(model.input().n));
  std::iota(ids_.begin(), ids_.end(), 0);
  units.resize(model.units().size());
}

StepContext TimedSteps::step() {
  StepContext step{.training = true, .seed = 1, .updates_done = model_state_.optimizer.steps(), .ids = ids_};
  step.loss_weight = 1.0F / static_cast<float>(ids_.size());
  step.halo_messages = silence_.get();
  step.sample_sum = own_sum_.get();
  step.share = model_state_.model.execution().share;
  return step;
}

void TimedSteps::run(bool timed) {
  Model& model = model_state_.model;
  StepContext now = step();
  const ConstTensor x{model.input(), input_.span()};
  model_state_.optimizer.advance(1e-3, now);
  Timer timer;
  const auto note = [&](std::vector<double>& times) {
    const double seconds = timer.lap();
    if (timed) times.push_back(seconds);
  };
  ConstTensor y;
  for (std::size_t u = 0; u < units.size(); ++u) {
    y = model.forward(model.units()[u], now, x);
    note(units[u].forward);
  }
  loss_op_->run(now, y, {target_shape_, target_.span()}, model.output_gradient(y.shape.n), model.loss());
  note(loss);
  for (std::size_t u = units.size(); u-- > 0;) {
    model.backward(model.units()[u], now, x);
    note(units[u].backward);
  }
  model_state_.update(now);
  model.constrain(model_state_.optimizer.steps());
  note(update);
}

TimedSteps::Backward TimedSteps::backward_alone(std::size_t u, int repeats) {
  Model& model = model_state_.model;
  const Unit& unit = model.units()[u];
  const StepContext now = step();
  const LayerBuffers buffers = model.buffers_of(unit, now, ConstTensor(model.input(), {}));
  const Shape in = unit.reads[0] == 0 ? model.input() : model.units()[unit.reads[0] - 1].out;
  std::vector<Arena> arenas;
  const auto tensor = [&](const Shape& shape) {
    arenas.push_back(backend_.allocate(backend_.activation_floats(shape)));
    fill_normal(arenas.back().span(), 3);
    return Tensor{shape, arenas.back().span()};
  };
  const Tensor x = tensor(in), dx = tensor(in), y = tensor(unit.out), dy = tensor(unit.out);
  std::vector<double> both, weights;
  for (int i = 0; i <= repeats; ++i) {  // the first is not timed
    Timer timer;
    unit.layer->backward(buffers, x, y, dy, dx);
    const double first = timer.lap();
    unit.layer->backward(buffers, x, y, dy, {in, {}});
    if (i > 0) both.push_back(first), weights.push_back(timer.lap());
  }
  return {median(both), median(weights)};
}

namespace {

// The value in the middle, of two the lower one: other work on the machine only adds to a time.
template <class Value, class Time>
Value middle(std::vector<Value> values, const Time& time) {
  const auto at = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, at, {}, time);
  return *at;
}
double middle(std::vector<double> values) { return middle(std::move(values), std::identity()); }

// The median of a number that get(round) finds in every round.
template <class Get>
double over(const std::vector<TableRound>& rounds, const Get& get) {
  std::vector<double> values;
  for (const TableRound& round : rounds) values.push_back(get(round.times));
  return middle(std::move(values));
}

// Latency and time per amount of a fit move against each other, so they stay together.
template <class Get>
Line line_over(const std::vector<TableRound>& rounds, double amount, const Get& get) {
  std::vector<Line> lines;
  for (const TableRound& round : rounds) lines.push_back(get(round.times));
  return middle(std::move(lines), [&](const Line& line) { return line.at(amount); });
}

// The mean: a core may be slow for some seconds, which a median over networks and rounds would not count, but an epoch
// does.
RankWaiting mean_waiting(const std::vector<TableRound>& rounds) {
  RankWaiting sum;
  double count = 0;
  for (const TableRound& round : rounds)
    for (const MeasuredStep& step : round.steps) sum.step += step.waiting.step, sum.unit += step.waiting.unit, ++count;
  return count > 0 ? RankWaiting{sum.step / count, sum.unit / count} : sum;
}

}  // namespace

RoundSpread spread_of(const std::vector<TableRound>& rounds) {
  RoundSpread spread;
  std::vector<double> all;
  for (std::size_t network = 0; network < rounds.front().steps.size(); ++network) {
    std::vector<double> seconds;
    for (const TableRound& round : rounds) seconds.push_back(round.steps.at(network).seconds);
    const auto [least, most] = std::ranges::minmax(seconds);
    all.push_back((most - least) / middle(seconds));
    if (all.back() < spread.most) continue;
    spread.most = all.back();
    spread.worst = rounds.front().steps[network].network;
  }
  if (!all.empty()) spread.median = middle(all);
  return spread;
}

TeamTables median_of(const std::vector<TableRound>& rounds) {
  TeamTables all = rounds.front().times;
  for (std::size_t i = 0; i < all.operations.size(); ++i) {
    const auto pass = [&](const auto& get) {
      return over(rounds, [&](const TeamTables& times) { return get(times.operations.at(i)); });
    };
    OperationTime& point = all.operations[i];
    point.forward = pass([](const OperationTime& one) { return one.forward; });
    if (point.data) point.data = pass([](const OperationTime& one) { return one.data.value(); });
    if (point.weights) point.weights = pass([](const OperationTime& one) { return one.weights.value(); });
  }
  for (std::size_t i = 0; i < all.updates.size(); ++i)
    all.updates[i].seconds = over(rounds, [&](const TeamTables& times) { return times.updates.at(i).seconds; });
  constexpr double kOutputs = 1e4, kBytes = 1 << 20;
  all.loss = line_over(rounds, kOutputs, [](const TeamTables& times) { return times.loss; });
  all.load = line_over(rounds, kBytes, [](const TeamTables& times) { return times.load; });
  for (std::optional<Line> TeamTables::*line : {&TeamTables::message, &TeamTables::sum, &TeamTables::update_sum})
    if (all.*line)
      all.*line = line_over(rounds, kBytes, [&](const TeamTables& times) { return (times.*line).value(); });
  for (auto& [scheme, seconds] : all.codings)
    seconds = over(rounds, [&](const TeamTables& times) { return times.codings.at(scheme); });
  all.small_sum = over(rounds, [](const TeamTables& times) { return times.small_sum; });
  all.waiting = mean_waiting(rounds);
  all.spread = spread_of(rounds).median;
  return all;
}

}  // namespace mrmf
