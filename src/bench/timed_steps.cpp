// Training steps with a clock around every unit, and tables made of several rounds of them. Declared in bench.hpp.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "kernels/timer.hpp"
#include "src/bench/bench.hpp"

namespace mrmf {
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
  const LayerBuffers buffers = model.buffers_of(unit, now);
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
