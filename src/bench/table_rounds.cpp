#include "src/bench/table_rounds.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace mrmf {
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
  all.small_sum = over(rounds, [](const TeamTables& times) { return times.small_sum; });
  all.waiting = mean_waiting(rounds);
  all.spread = spread_of(rounds).median;
  return all;
}

}  // namespace mrmf
